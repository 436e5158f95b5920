#include "capture/recorder/process/host.h"

#include "core/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct host *host_open(int pid, int pid_fd, const char *path, const char *info_json, uint64_t origin_stamp,
                       struct trace_error *error) {
  struct host *host = calloc(1, sizeof *host);
  char *own_path = strdup(path);
  if (!host || !own_path) {
    free(host);
    free(own_path);
    trace_error_set(error, path, "out of memory");
    return NULL;
  }
  if (trace_writer_open(&host->writer, path, info_json, NULL, error) != 0) {
    free(own_path);
    free(host);
    return NULL;
  }
  host->pid = pid;
  host->pid_fd = pid_fd;
  host->path = own_path;
  host->origin_ns = os_monotonic_ns();
  host->origin_stamp = origin_stamp;
  sampler_open(&host->sampler, pid);
  host_sample(host, origin_stamp);
  return host;
}

int host_add_region(struct host *host, uint32_t rings) {
  if (host->regions == REGIONS_MAX) {
    errno = ENOMEM;
    return -1;
  }
  size_t bytes = region_bytes(rings);
  int fd = memfd_create("heaptape", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  /* Sealed: a host that made it shorter would kill the collector with SIGBUS. */
  if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    close(fd);
    return -1;
  }
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    close(fd);
    return -1;
  }
  if (host->regions == 0)
    atomic_store(&((struct region *)memory)->paused, host->paused);
  host->region[host->regions].memory = memory;
  host->region[host->regions].rings = rings;
  host->region[host->regions++].seen = 0;
  return fd;
}

void host_stop(struct host *host) {
  for (uint32_t i = 0; i < host->regions; i++)
    atomic_store(&host->region[i].memory->stop, 1);
}

void host_pause(struct host *host, uint32_t reasons, bool on) {
  host->paused = on ? host->paused | reasons : host->paused & ~reasons;
  if (!host->regions)
    return;
  if (on)
    atomic_fetch_or(&host->region[0].memory->paused, reasons);
  else
    atomic_fetch_and(&host->region[0].memory->paused, ~reasons);
}

uint32_t host_paused(const struct host *host) {
  return host->regions ? atomic_load(&host->region[0].memory->paused) : host->paused;
}

int host_add_stacks(struct host *host) {
  if (host->given_up) {
    errno = EBADF;
    return -1;
  }
  return stack_nodes_open(&host->stacks, host->pid, host->writer);
}

/* Is the trace still being written? */
static bool writes(const struct host *host) {
  return !host->given_up;
}

static void give_up(struct host *host, const char *why) {
  if (!writes(host))
    return;
  host->given_up = why;
  host_stop(host);
}

static void look_at_name(struct host *host, struct host_tape *tape) {
  if (host->names && tape->thread >= 0 && writes(host) &&
      thread_name_look(&tape->name, host->pid, atomic_load(&tape->ring->owner), (uint32_t)tape->thread, host->writer,
                       os_monotonic_ns()) != 0)
    give_up(host, "cannot be written");
}

static uint32_t thread_of(struct host *host, struct host_tape *tape) {
  if (tape->thread < 0) {
    tape->thread = host->threads++;
    if (tape->ring)
      look_at_name(host, tape);
  }
  return (uint32_t)tape->thread;
}

static void put_event(struct host *host, struct host_tape *tape, const struct trace_event *event) {
  if (writes(host) && trace_writer_event(host->writer, thread_of(host, tape), event) == 0)
    return;
  trace_writer_totals(host->writer)->lost++;
  give_up(host, "cannot be written");
}

/* The event that was held back, if any, takes its place. */
static void put_held(struct host *host, struct host_tape *tape) {
  if (tape->holds)
    put_event(host, tape, &tape->held);
  tape->holds = false;
}

static void tell_gap(struct host *host, struct host_tape *tape, uint64_t dropped, const char *why) {
  put_held(host, tape);
  if (!writes(host))
    trace_writer_totals(host->writer)->lost += dropped;
  else if (trace_writer_gap(host->writer, thread_of(host, tape), dropped, why) != 0)
    give_up(host, "cannot be written");
}

static void tell_missing(struct host *host, struct host_tape *tape, enum missing why, uint64_t dropped) {
  if (why == MISSING_PAUSED) {
    tape->unseen_told += dropped;
    host->unseen += dropped;
  } else {
    tape->dropped_told += dropped;
  }
  tell_gap(host, tape, dropped, why == MISSING_PAUSED ? "paused" : "ring full");
}

void host_cut(struct host *host, uint64_t stamp, const char *why) {
  host->cut_stamp = stamp;
  host->cut_why = why;
}

/* The ring's owner has died and another thread has it, or all is over. */
static void thread_ends(struct host *host, struct host_tape *tape) {
  put_held(host, tape);
  if (tape->thread >= 0 && writes(host))
    trace_writer_flush_thread(host->writer, (uint32_t)tape->thread);
  host->in_flight += tape->begins;
  tape->begins = 0;
  tape->thread = -1;
  tape->name = (struct thread_name){0};
  tape->stamp = tape->param = tape->touched_address = 0;
}

/* Word 1 of TOUCHED and ALIVE as the trace can hold it: the host may write anything there. */
static uint32_t os_pages_told(uint64_t word) {
  return word < UINT32_MAX ? (uint32_t)word : UINT32_MAX - 1;
}

/* Of the object at address, whose release is the record just read: OS pages plus 1, or 0. The address is compared, as a
   drop may have taken the event to which a TOUCHED record belonged. */
static uint32_t take_touched(struct host_tape *tape, uint64_t address) {
  uint32_t touched = address && address == tape->touched_address ? tape->touched_os_pages + 1 : 0;
  tape->touched_address = 0;
  return touched;
}

static void take_begin(struct host_tape *tape, uint64_t address, uint64_t stamp) {
  if (tape->begins == HOST_BEGINS_MAX) /* handlers that never came back: the oldest can't end any more */
    memmove(tape->begun, tape->begun + 1, --tape->begins * sizeof *tape->begun);
  tape->begun[tape->begins].address = address;
  tape->begun[tape->begins].touched_os_pages = take_touched(tape, address);
  tape->begun[tape->begins++].stamp = stamp;
}

static void take_columns(struct host *host, struct host_tape *tape, struct trace_event *event) {
  if (event->call & CALL_NULL_OUT)
    tape->columns.slack = 0;
  event->latency = tape->columns.latency;
  event->slack_bytes = tape->columns.slack;
  if (tape->columns.stack && writes(host))
    event->stack = stack_nodes_take(&host->stacks, host->writer, tape->columns.stack);
  tape->columns = (struct record_columns){0};
}

/* Of the release before, if it is the one that is held. */
static void take_latency(struct host *host, struct host_tape *tape, uint64_t address, uint64_t latency) {
  if (tape->holds && tape->held.released == address)
    tape->held.latency = latency;
  put_held(host, tape);
}

static void take_event(struct host *host, struct host_tape *tape, uint8_t op, uint64_t address, uint64_t word) {
  const struct call_info *info = &call_table[op & CALL_ID_MASK];
  if (!info->name) {
    host->broken++;
    return;
  }
  struct trace_event event = {.call = op, .param = tape->param};
  uint64_t stamp = info->has_size ? tape->stamp : word;
  if (tape->thread < 0 && !stamp && !tape->begins)
    stamp = host->origin_stamp; /* only a host that overwrote its ring has a first step without a stamp */
  tape->param = tape->stamp = 0;
  event.size_bytes = info->has_size ? word : 0;
  put_held(host, tape);
  if (!info->acquires) {
    event.released = address;
    event.touched_os_pages = take_touched(tape, address);
    if (address)
      event.release_stamp = stamp;
    else
      event.acquire_stamp = stamp;
  } else {
    tape->touched_address = 0;
    event.acquired = address;
    event.acquire_stamp = stamp;
    if (info->released == RELEASES && !(op & CALL_NULL_IN)) {
      if (tape->begins == 0) {
        host->broken++;
        return;
      }
      event.released = tape->begun[--tape->begins].address;
      event.release_stamp = tape->begun[tape->begins].stamp;
      if (trace_event_releases(&event))
        event.touched_os_pages = tape->begun[tape->begins].touched_os_pages;
    }
  }
  if (info->acquires) {
    take_columns(host, tape, &event);
    put_event(host, tape, &event);
  } else if (host->latency) {
    tape->held = event;
    tape->holds = true;
  } else {
    put_event(host, tape, &event);
  }
}

/* A record of at most 15 bytes; one too many for a mark starts anew, as its first records were a mark that was lost. */
static void take_text(struct host_tape *tape, uint64_t head, uint64_t word) {
  if (tape->text_bytes + 15 > sizeof tape->text)
    tape->text_bytes = 0;
  memcpy(tape->text + tape->text_bytes, (const char *)&head + 1, 7);
  memcpy(tape->text + tape->text_bytes + 7, &word, 8);
  tape->text_bytes += 15;
}

/* The stamp that the record carries of its own; 0: it has none. */
static uint64_t stamp_in(uint8_t op, uint64_t word) {
  const struct call_info *info = &call_table[op & CALL_ID_MASK];
  if (op == RECORD_STAMP || op == RECORD_BEGIN || op == RECORD_MARK)
    return word;
  return info->name && !info->has_size ? word : 0;
}

/* length: of the text, which the last records hold. */
static void take_mark(struct host *host, struct host_tape *tape, uint64_t length, uint64_t stamp) {
  uint64_t bytes = (length / 15 + 1) * 15;
  if (length > 255 || bytes > tape->text_bytes) {
    host->broken++;
  } else {
    char *text = tape->text + tape->text_bytes - bytes;
    text[length] = '\0';
    struct trace_mark mark = {.stamp = stamp, .events = TRACE_MARK_HERE, .text = text};
    if (tape->thread < 0) /* a thread is made known by a block of its own */
      tell_gap(host, tape, 0, "a mark before the first event");
    mark.thread = thread_of(host, tape);
    put_held(host, tape);
    if (writes(host) && trace_writer_mark(host->writer, &mark) != 0)
      give_up(host, "cannot be written");
  }
  tape->text_bytes = 0;
}

static void take_record(struct host *host, struct host_tape *tape, uint64_t head, uint64_t word) {
  uint8_t op = (uint8_t)head;
  if (host->cut_stamp && (tape->cut || stamp_in(op, word) > host->cut_stamp)) {
    tape->cut = true;
    return;
  }
  switch (op) {
  case RECORD_TEXT:
    take_text(tape, head, word);
    break;
  case RECORD_MARK:
    take_mark(host, tape, head >> 8, word);
    break;
  case RECORD_COLUMNS:
    tape->columns = record_columns_get(head, word);
    break;
  case RECORD_LATENCY:
    take_latency(host, tape, head >> 8, word);
    break;
  case RECORD_PARAM:
    tape->param = word;
    break;
  case RECORD_STAMP:
    tape->stamp = word;
    break;
  case RECORD_BEGIN:
    take_begin(tape, head >> 8, word);
    break;
  case RECORD_TOUCHED:
    tape->touched_address = head >> 8;
    tape->touched_os_pages = os_pages_told(word);
    break;
  case RECORD_ALIVE:
    if (writes(host) && trace_writer_touched(host->writer, head >> 8, os_pages_told(word)))
      give_up(host, "cannot be written");
    break;
  case RECORD_THREAD:
    thread_ends(host, tape);
    break;
  case RECORD_DROPPED:
    tell_missing(host, tape, head >> 8 == MISSING_PAUSED ? MISSING_PAUSED : MISSING_RING_FULL, word);
    break;
  default:
    take_event(host, tape, op, head >> 8, word);
  }
}

static uint64_t drain_tape(struct host *host, struct host_tape *tape) {
  struct ring *ring = tape->ring;
  uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire) - ring->base;
  if (head == tape->tail)
    return 0;
  if (head >= RING_BYTES || head % 16 != 0) {
    host->broken++;
    return 0;
  }
  uint64_t records = 0;
  uint32_t at = tape->tail;
  bool turned = false;
  while (at != head) {
    uint64_t record[2];
    memcpy(record, tape->memory + at, sizeof record);
    at += 16;
    if ((uint8_t)record[0] == RECORD_WRAP || at >= RING_BYTES) {
      if (turned) { /* twice round for one head: the host has overwritten its ring */
        host->broken++;
        at = head;
        break;
      }
      turned = true;
      at = 0;
      continue;
    }
    take_record(host, tape, record[0], record[1]);
    records++;
  }
  tape->tail = at;
  atomic_store(&ring->tail, at);
  if (atomic_load(&ring->waiting)) {
    atomic_store(&ring->waiting, 0);
    atomic_fetch_add(&ring->drained, 1);
    os_futex_wake((const uint32_t *)&ring->drained, 1, true);
  }
  return records;
}

/* Takes up the rings that the host has begun to use. */
static void look_for_tapes(struct host *host) {
  for (uint32_t r = 0; r < host->regions; r++) {
    struct region *region = host->region[r].memory;
    uint32_t rings = host->region[r].rings;
    uint32_t used = atomic_load_explicit(&region->used, memory_order_acquire);
    for (; host->region[r].seen < used && host->region[r].seen < rings; host->region[r].seen++) {
      if (host->tape_count == host->tape_room) {
        uint32_t room = host->tape_room ? host->tape_room * 2 : 16;
        struct host_tape *tapes = realloc(host->tapes, room * sizeof *tapes);
        if (!tapes) {
          give_up(host, "out of memory");
          return;
        }
        host->tapes = tapes;
        host->tape_room = room;
      }
      uint32_t at = host->region[r].seen;
      host->tapes[host->tape_count++] =
          (struct host_tape){.ring = &region->rings[at],
                             .memory = (const char *)region + region_header_bytes(rings) + (uint64_t)at * RING_BYTES,
                             .thread = -1};
    }
  }
}

uint64_t host_drain(struct host *host, void (*between)(void *context), void *context) {
  uint64_t records = 0;
  uint32_t asked = stack_nodes_asked(&host->stacks);
  look_for_tapes(host);
  for (uint32_t i = 0; i < host->tape_count; i++) {
    uint64_t got = drain_tape(host, &host->tapes[i]);
    records += got;
    if (got && between)
      between(context);
  }
  stack_nodes_answer(&host->stacks, asked);
  return records;
}

void host_flush(struct host *host) {
  if (writes(host) && trace_writer_flush(host->writer) != 0)
    give_up(host, "cannot be written");
}

uint64_t host_file_bytes(const struct host *host) {
  enum { FOOTER_BYTES = 16 << 10, EVENT_BYTES = 3 };
  const struct trace_totals *running = trace_writer_totals(host->writer);
  return running->file_bytes + running->pending * EVENT_BYTES + FOOTER_BYTES;
}

void host_sample(struct host *host, uint64_t stamp) {
  struct trace_sample sample;
  if (!writes(host) || !sampler_read(&host->sampler, &sample))
    return;
  if (host->sampler.sandboxed && host->regions)
    atomic_store(&host->region[0].memory->sandboxed, 1);
  for (uint32_t i = 0; host->names && i < host->tape_count; i++)
    look_at_name(host, &host->tapes[i]);
  sample.stamp = stamp;
  if (trace_writer_sample(host->writer, &sample) != 0)
    give_up(host, "cannot be written");
}

/* What the rings' counters know beyond the records: drops that no DROPPED record told of, and threads without a ring.
 */
static uint64_t settle(struct host *host) {
  uint64_t nested = 0, orphan = 0;
  for (uint32_t i = 0; i < host->tape_count; i++) {
    struct host_tape *tape = &host->tapes[i];
    nested += atomic_load(&tape->ring->nested);
    uint64_t dropped = atomic_load(&tape->ring->dropped);
    if (dropped > tape->dropped_told && !host->cut_stamp)
      tell_missing(host, tape, MISSING_RING_FULL, dropped - tape->dropped_told);
    uint64_t unseen = atomic_load(&tape->ring->unseen);
    if (unseen > tape->unseen_told && !host->cut_stamp)
      tell_missing(host, tape, MISSING_PAUSED, unseen - tape->unseen_told);
    uint64_t marks = atomic_load(&tape->ring->marks_lost);
    if (marks)
      tell_gap(host, tape, 0, "marks were lost: ring full");
    thread_ends(host, tape);
  }
  for (uint32_t r = 0; r < host->regions; r++)
    orphan += atomic_load(&host->region[r].memory->orphan);
  if (host->cut_why) {
    struct host_tape first = {.thread = host->threads ? 0 : -1};
    tell_gap(host, &first, 0, host->cut_why);
  }
  if (orphan) {
    struct host_tape nobody = {.thread = -1};
    tell_gap(host, &nobody, orphan, "no ring for the thread, or a fork child in a sandbox");
  }
  return nested;
}

int host_close(struct host *host, const char *end, const struct process_end *how, double clock_hz,
               struct host_totals *totals, struct trace_error *error) {
  while (host_drain(host, NULL, NULL) > 0)
    ;
  uint64_t nested = settle(host);
  memset(totals, 0, sizeof *totals);
  struct trace_totals *running = trace_writer_totals(host->writer);
  running->nested = nested;
  running->in_flight = host->in_flight;
  if (how) {
    running->exit_status = how->status_known ? how->status : -1;
    running->final_known = how->usage_known;
    running->final = how->usage;
  }
  int result = trace_writer_finish(host->writer, end, clock_hz, error);
  totals->totals = *running;
  trace_writer_free(host->writer);
  if (result == 0 && host->given_up)
    result = trace_error_set(error, host->path, "%s", host->given_up);
  struct stat status;
  if (stat(host->path, &status) == 0)
    totals->totals.file_bytes = (uint64_t)status.st_size;
  else if (result == 0)
    result = trace_error_errno(error, host->path, "the trace was removed while it was written");
  totals->broken = host->broken;
  totals->stacks_lost = stack_nodes_lost(&host->stacks);
  stack_nodes_close(&host->stacks);
  totals->unseen = host->unseen;
  totals->cut_why = host->cut_why;
  totals->seconds = (double)(os_monotonic_ns() - host->origin_ns) / 1e9;
  for (uint32_t r = 0; r < host->regions; r++)
    munmap(host->region[r].memory, region_bytes(host->region[r].rings));
  sampler_close(&host->sampler);
  if (host->pid_fd >= 0)
    close(host->pid_fd);
  free(host->tapes);
  free(host->path);
  free(host);
  return result;
}
