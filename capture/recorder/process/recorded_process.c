/* SPDX-License-Identifier: MIT */
#include "capture/recorder/process/recorded_process.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/trace/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct recorded_process *recorded_process_open(const struct recording_start *start, struct error *error) {
  struct recorded_process *process = calloc(1, sizeof *process);
  char *own_path = strdup(start->path);
  if (!process || !own_path) {
    free(process);
    free(own_path);
    error_set(error, start->path, "out of memory");
    return NULL;
  }
  if (trace_writer_open(&process->writer, start->path, start->info_json, NULL, error) != 0) {
    free(own_path);
    free(process);
    return NULL;
  }
  process->pid = start->pid;
  process->pid_fd = start->pid_fd;
  process->path = own_path;
  process->origin_ns = os_monotonic_ns();
  process->origin_stamp = start->origin_stamp;
  process->simulated = start->simulated;
  process->file = 1;
  process->pause_word = "paused";
  if (process->simulated)
    trace_writer_accesses_begin(process->writer);
  if (start->sampled)
    trace_writer_access_samples_begin(process->writer);
  trace_writer_totals(process->writer)->accesses.in_bursts = start->in_bursts;
  sampler_open(&process->sampler, start->pid);
  live_sample_open(&process->live); /* without memory there is no estimate, and all else goes on */
  site_sample_open(&process->sites, process->origin_ns);
  recorded_process_sample(process, start->origin_stamp);
  return process;
}

int recorded_process_add_region(struct recorded_process *process, uint32_t rings) {
  if (process->regions == REGIONS_MAX) {
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
  if (process->regions == 0) {
    atomic_store(&((struct region *)memory)->paused, process->paused);
    atomic_store(&((struct region *)memory)->bursts, process->bursts);
  }
  process->region[process->regions].memory = memory;
  process->region[process->regions].rings = rings;
  process->region[process->regions++].seen = 0;
  return fd;
}

void recorded_process_stop(struct recorded_process *process) {
  for (uint32_t i = 0; i < process->regions; i++)
    atomic_store(&process->region[i].memory->stop, 1);
}

void recorded_process_pause(struct recorded_process *process, uint32_t reasons, bool on) {
  process->paused = on ? process->paused | reasons : process->paused & ~reasons;
  if (!process->regions)
    return;
  if (on)
    atomic_fetch_or(&process->region[0].memory->paused, reasons);
  else
    atomic_fetch_and(&process->region[0].memory->paused, ~reasons);
}

void recorded_process_set_bursts(struct recorded_process *process, uint32_t bursts) {
  process->bursts = bursts;
  if (process->regions)
    atomic_store(&process->region[0].memory->bursts, bursts);
}

uint32_t recorded_process_paused(const struct recorded_process *process) {
  return process->regions ? atomic_load(&process->region[0].memory->paused) : process->paused;
}

int recorded_process_add_stacks(struct recorded_process *process) {
  if (process->given_up) {
    errno = EBADF;
    return -1;
  }
  return stack_nodes_open(&process->stacks, process->pid, process->writer);
}

int recorded_process_add_accesses(struct recorded_process *process) {
  return access_stream_open(&process->accesses);
}

/* Is the trace still being written? */
static bool writes(const struct recorded_process *process) {
  return !process->given_up;
}

static void give_up(struct recorded_process *process, const char *why) {
  if (!writes(process))
    return;
  process->given_up = why;
  recorded_process_stop(process);
}

static void look_at_name(struct recorded_process *process, struct ring_reader *reader) {
  if (process->names && reader->thread >= 0 && writes(process) &&
      thread_name_look(&reader->name, process->pid, atomic_load(&reader->ring->owner), os_monotonic_ns()) &&
      trace_writer_thread_name(process->writer, (uint32_t)reader->thread, reader->name.text) != 0)
    give_up(process, "cannot be written");
}

/* Notes which thread of the trace has that serial number; the host may write any. */
static void note_serial(struct recorded_process *process, uint64_t serial, uint32_t thread) {
  if (!process->accesses.bytes || serial >= TRACE_MAX_THREADS)
    return;
  uint32_t *known = vector_reach(&process->thread_of_serial, serial);
  if (known)
    *known = thread + 1;
}

/* The thread goes on from an earlier file: a reader of both finds it by that. */
static void name_before(struct recorded_process *process, struct ring_reader *reader) {
  char why[64];
  if (!reader->before.file || !writes(process))
    return;
  snprintf(why, sizeof why, TRACE_CONTINUES, reader->before.thread, reader->before.file);
  if (trace_writer_gap(process->writer, (uint32_t)reader->thread, 0, why) != 0)
    give_up(process, "cannot be written");
  reader->before.file = 0;
}

static uint32_t new_thread(struct recorded_process *process, struct ring_reader *reader) {
  reader->thread = process->threads++;
  name_before(process, reader);
  note_serial(process, reader->serial, (uint32_t)reader->thread);
  if (reader->ring)
    look_at_name(process, reader);
  return (uint32_t)reader->thread;
}

static inline uint32_t thread_of(struct recorded_process *process, struct ring_reader *reader) {
  return __builtin_expect(reader->thread >= 0, 1) ? (uint32_t)reader->thread : new_thread(process, reader);
}

/* Calls of the thread are in the trace, or counted as missing. */
static inline void count_calls(struct recorded_process *process, uint32_t thread, uint64_t calls) {
  if (__builtin_expect(!process->accesses.bytes, 1))
    return;
  struct thread_calls *counts = vector_reach(&process->calls, thread);
  if (counts)
    counts->events += calls;
}

static void put_event(struct recorded_process *process, struct ring_reader *reader, const struct trace_event *event) {
  if (writes(process) && trace_writer_event(process->writer, thread_of(process, reader), event) == 0) {
    count_calls(process, (uint32_t)reader->thread, 1);
    return;
  }
  trace_writer_totals(process->writer)->lost++;
  give_up(process, "cannot be written");
}

/* Writes the event that was held back for its latency, if there is one. */
static void put_held(struct recorded_process *process, struct ring_reader *reader) {
  if (reader->holds)
    put_event(process, reader, &reader->held);
  reader->holds = false;
}

static void write_gap(struct recorded_process *process, struct ring_reader *reader, uint64_t dropped, const char *why) {
  put_held(process, reader);
  if (!writes(process))
    trace_writer_totals(process->writer)->lost += dropped;
  else if (trace_writer_gap(process->writer, thread_of(process, reader), dropped, why) != 0)
    give_up(process, "cannot be written");
  else
    count_calls(process, (uint32_t)reader->thread, dropped);
}

static uint64_t counted(const struct ring_reader *reader, enum missing why) {
  return atomic_load(why == MISSING_PAUSED ? &reader->ring->skipped : &reader->ring->dropped);
}

static uint64_t unreported(const struct ring_reader *reader, enum missing why) {
  uint64_t all = counted(reader, why), before = reader->reported[why];
  return all > before ? all - before : 0; /* the counter is the host's: it may have become less */
}

/* Of the first so many missing calls that the ring has counted, those that no file has yet. */
static void write_missing(struct recorded_process *process, struct ring_reader *reader, enum missing why,
                          uint64_t first) {
  uint64_t all = counted(reader, why), before = reader->reported[why];
  all = all < first ? all : first;
  if (all <= before)
    return;
  reader->reported[why] = all;
  if (why == MISSING_PAUSED)
    process->skipped += all - before;
  write_gap(process, reader, all - before, why == MISSING_PAUSED ? process->pause_word : "ring full");
}

static void write_all_missing(struct recorded_process *process, struct ring_reader *reader) {
  for (enum missing why = 0; why < MISSING_KINDS; why++)
    write_missing(process, reader, why, process->cut_stamp ? reader->at_cut[why] : UINT64_MAX);
}

void recorded_process_cut(struct recorded_process *process, uint64_t stamp, const char *why) {
  process->cut_stamp = stamp;
  process->cut_why = why;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    for (enum missing why = 0; why < MISSING_KINDS; why++)
      reader->at_cut[why] = counted(reader, why);
  }
}

/* The ring's owner has ended: another thread has taken the ring over, or the process or its recording has ended. */
static void thread_ends(struct recorded_process *process, struct ring_reader *reader) {
  put_held(process, reader);
  if (reader->thread >= 0 && writes(process))
    trace_writer_flush_thread(process->writer, (uint32_t)reader->thread);
  process->in_flight += reader->begins;
  reader->begins = 0;
  reader->thread = -1;
  reader->before.file = 0;
  reader->last_stamp = 0;
  reader->name = (struct thread_name){0};
  reader->stamp = reader->param = reader->touched_address = 0;
}

/* Word 1 of TOUCHED and LIVE, limited to what the trace can hold: the host may write anything there. */
static uint32_t os_pages_in(uint64_t word) {
  return word < UINT32_MAX ? (uint32_t)word : UINT32_MAX - 1;
}

/* Of the object at address, whose release is the record just read: OS pages plus 1, or 0. The address is compared, as a
   drop may have taken the event to which a TOUCHED record belonged. */
static uint32_t take_touched(struct ring_reader *reader, uint64_t address) {
  uint32_t touched = address && address == reader->touched_address ? reader->touched_os_pages + 1 : 0;
  reader->touched_address = 0;
  return touched;
}

static void take_begin(struct ring_reader *reader, uint64_t address, uint64_t stamp) {
  if (reader->begins == BEGINS_MAX) /* handlers left by longjmp: the oldest resize can no longer end */
    memmove(reader->begun, reader->begun + 1, --reader->begins * sizeof *reader->begun);
  reader->begun[reader->begins].address = address;
  reader->begun[reader->begins].touched_os_pages = take_touched(reader, address);
  reader->begun[reader->begins].inherited = reader->last_stamp;
  reader->last_stamp = stamp ? stamp : reader->last_stamp;
  reader->begun[reader->begins++].stamp = stamp;
}

static void take_columns(struct recorded_process *process, struct ring_reader *reader, struct trace_event *event) {
  if (event->call & CALL_NULL_OUT)
    reader->columns.slack = 0;
  event->latency = reader->columns.latency;
  event->slack_bytes = reader->columns.slack;
  if (reader->columns.stack && writes(process))
    event->stack = stack_nodes_take(&process->stacks, process->writer, reader->columns.stack);
  if (event->stack && event->acquired)
    site_sample_acquire(&process->sites, reader->columns.stack, trace_event_request_bytes(event));
  reader->columns = (struct record_columns){0};
}

/* A latency belongs to the release before it, if that is the one that is held. */
static void take_latency(struct recorded_process *process, struct ring_reader *reader, uint64_t address,
                         uint64_t latency) {
  if (reader->holds && reader->held.released == address)
    reader->held.latency = latency;
  put_held(process, reader);
}

static void sample_acquire(struct recorded_process *process, const struct ring_reader *reader,
                           const struct trace_event *event) {
  struct live_acquire acquired = {.address = trace_event_acquires(event) ? event->acquired : 0,
                                  .bytes = trace_event_request_bytes(event),
                                  .node = reader->columns.stack,
                                  .thread = (uint32_t)(reader - process->readers.at)};
  live_sample_acquire(&process->live, &acquired);
}

static void sample_release(struct recorded_process *process, const struct ring_reader *reader,
                           const struct trace_event *event) {
  if (trace_event_releases(event))
    live_sample_release(&process->live, event->released, (uint32_t)(reader - process->readers.at),
                        event->touched_os_pages != 0);
}

static void take_event(struct recorded_process *process, struct ring_reader *reader, uint8_t op, uint64_t address,
                       uint64_t word) {
  const struct call_info *info = &call_table[op & CALL_ID_MASK];
  if (!info->name) {
    process->broken++;
    return;
  }
  struct trace_event event = {.call = op, .param = reader->param};
  uint64_t stamp = info->has_size ? reader->stamp : word;
  if (reader->thread < 0 && !stamp && reader->last_stamp)
    stamp = reader->last_stamp; /* the first one in this file, whose stamp is in the file before */
  if (reader->thread < 0 && !stamp && !reader->begins)
    stamp = process->origin_stamp; /* only a host that overwrote its ring has a first step without a stamp */
  reader->last_stamp = stamp ? stamp : reader->last_stamp;
  reader->param = reader->stamp = 0;
  event.size_bytes = info->has_size ? word : 0;
  put_held(process, reader);
  if (!info->acquires) {
    event.released = address;
    event.touched_os_pages = take_touched(reader, address);
    if (__builtin_expect(event.touched_os_pages || live_sample_has(&process->live, address), 0))
      sample_release(process, reader, &event);
    if (address)
      event.release_stamp = stamp;
    else
      event.acquire_stamp = stamp;
  } else {
    reader->touched_address = 0;
    event.acquired = address;
    event.acquire_stamp = stamp;
    if (info->released == RELEASES && !(op & CALL_NULL_IN)) {
      if (reader->begins == 0) {
        process->broken++;
        return;
      }
      event.released = reader->begun[--reader->begins].address;
      event.release_stamp = reader->begun[reader->begins].stamp;
      if (trace_event_releases(&event))
        event.touched_os_pages = reader->begun[reader->begins].touched_os_pages;
      sample_release(process, reader, &event);
    }
    if (__builtin_expect(live_sample_has(&process->live, address), 0) ||
        __builtin_expect(event.param || live_sample_is_exact(&process->live, word), 0))
      sample_acquire(process, reader, &event);
  }
  if (info->acquires) {
    take_columns(process, reader, &event);
    put_event(process, reader, &event);
  } else if (process->latency) {
    reader->held = event;
    reader->holds = true;
  } else {
    put_event(process, reader, &event);
  }
}

/* A record of at most 15 bytes of text. Where they are too many for one mark, the first ones were of a mark that was
   lost, and are forgotten. */
static void take_text(struct ring_reader *reader, uint64_t head, uint64_t word) {
  if (reader->text_bytes + 15 > sizeof reader->text)
    reader->text_bytes = 0;
  memcpy(reader->text + reader->text_bytes, (const char *)&head + 1, 7);
  memcpy(reader->text + reader->text_bytes + 7, &word, 8);
  reader->text_bytes += 15;
}

/* The stamp in the record itself; 0: it has none. */
static uint64_t stamp_in(uint8_t op, uint64_t word) {
  const struct call_info *info = &call_table[op & CALL_ID_MASK];
  if (op == RECORD_STAMP || op == RECORD_BEGIN || op == RECORD_MARK)
    return word;
  return info->name && !info->has_size ? word : 0;
}

/* length: of the text, which the last records hold. */
static void take_mark(struct recorded_process *process, struct ring_reader *reader, uint64_t length, uint64_t stamp) {
  uint64_t bytes = (length / 15 + 1) * 15;
  if (length > 255 || bytes > reader->text_bytes) {
    process->broken++;
  } else {
    char *text = reader->text + reader->text_bytes - bytes;
    text[length] = '\0';
    struct trace_mark mark = {.stamp = stamp, .events = TRACE_MARK_HERE, .text = text};
    if (reader->thread < 0) /* so that the thread has a block before the mark names it */
      write_gap(process, reader, 0, "a mark before the first event");
    mark.thread = thread_of(process, reader);
    put_held(process, reader);
    if (writes(process) && trace_writer_mark(process->writer, &mark) != 0)
      give_up(process, "cannot be written");
  }
  reader->text_bytes = 0;
}

/* The call to which the records before belong was not completed. */
static void take_void(struct ring_reader *reader) {
  reader->param = reader->stamp = 0;
  reader->columns = (struct record_columns){0};
}

static void take_record(struct recorded_process *process, struct ring_reader *reader, uint64_t head, uint64_t word) {
  uint8_t op = (uint8_t)head;
  if (process->cut_stamp && (reader->cut || stamp_in(op, word) > process->cut_stamp)) {
    reader->cut = true;
    return;
  }
  HT_ASSERT(reader->begins <= BEGINS_MAX && reader->text_bytes <= sizeof reader->text);
  switch (op) {
  case RECORD_TEXT:
    take_text(reader, head, word);
    break;
  case RECORD_MARK:
    take_mark(process, reader, head >> 8, word);
    break;
  case RECORD_COLUMNS:
    reader->columns = record_columns_get(head, word);
    break;
  case RECORD_LATENCY:
    take_latency(process, reader, head >> 8, word);
    break;
  case RECORD_PARAM:
    reader->param = word;
    break;
  case RECORD_STAMP:
    reader->stamp = word;
    break;
  case RECORD_BEGIN:
    take_begin(reader, head >> 8, word);
    break;
  case RECORD_TOUCHED:
    reader->touched_address = head >> 8;
    reader->touched_os_pages = os_pages_in(word);
    break;
  case RECORD_LIVE:
    if (writes(process) && trace_writer_touched(process->writer, head >> 8, os_pages_in(word)))
      give_up(process, "cannot be written");
    break;
  case RECORD_THREAD:
    thread_ends(process, reader);
    reader->serial = word;
    break;
  case RECORD_DROPPED: {
    enum missing why = head >> 8 == MISSING_PAUSED ? MISSING_PAUSED : MISSING_RING_FULL;
    write_missing(process, reader, why, reader->reported[why] + word);
    break;
  }
  default:
    take_event(process, reader, op, head >> 8, word);
  }
}

/* Reads the ring up to its first empty slot. At most one ring's records, as a hostile host can write without end. */
static uint64_t read_ring(struct recorded_process *process, struct ring_reader *reader) {
  uint64_t records = 0, head, word;
  while (records < RING_BYTES / 16) {
    HT_ASSERT(reader->tail % 16 == 0 && reader->tail < RING_BYTES);
    uint64_t *slot = (uint64_t *)(reader->memory + reader->tail);
    if (!record_get(slot, &head, &word))
      break;
    if (process->hold_stamp && stamp_in((uint8_t)head, word) > process->hold_stamp)
      break;
    slot[0] = slot[1] = 0;
    records++;
    reader->tail = (reader->tail + 16) % RING_BYTES;
    if (head == RECORD_VOID) {
      take_void(reader);
    } else if ((uint8_t)head != RECORD_JUMP) {
      take_record(process, reader, head, word);
    } else if (head >> 8 < RING_BYTES && (head >> 8) % 16 == 0) {
      reader->tail = (uint32_t)(head >> 8);
    } else {
      process->broken++;
    }
  }
  return records;
}

static bool is_at_empty_slot(const struct ring_reader *reader) {
  uint64_t head, word;
  return !record_get((const uint64_t *)(reader->memory + reader->tail), &head, &word);
}

static uint64_t drain_ring(struct recorded_process *process, struct ring_reader *reader) {
  struct ring *ring = reader->ring;
  if (reader->stopped && is_at_empty_slot(reader))
    return 0;
  atomic_store(&ring->stopped, 0);
  uint64_t records = read_ring(process, reader);
  ring_set_tail(ring, reader->tail);
  reader->stopped = is_at_empty_slot(reader);
  if (reader->stopped)
    atomic_store(&ring->stopped, reader->tail + 1);
  if (atomic_load(&ring->waiting)) {
    atomic_store(&ring->waiting, 0);
    atomic_fetch_add(&ring->drained, 1);
    os_futex_wake((const uint32_t *)&ring->drained, 1, true);
  }
  return records;
}

/* A record in a slot that was given up came too late: it is missing, and counted once. */
static uint64_t take_late(struct ring_reader *reader, uint32_t at, uint64_t head) {
  memset(reader->memory + at, 0, 16);
  return head != RECORD_VOID && (uint8_t)head != RECORD_PARAM;
}

/* What has been written behind empty slots, when nobody will fill them any more: the calls that were to do so have not
   been completed. Where the program goes on, a thread may write while this looks: what is found behind slots that were
   empty may be the end of what it has just written. So all is looked at again from the tail on: what the thread wrote
   before the record that was found is there now. */
static void drain_behind_empty_slots(struct recorded_process *process, struct ring_reader *reader) {
  enum { LOOKS = 64 }; /* a host can write without end, and all that it writes now is behind the cut */
  uint64_t head, word, late = 0;
  uint32_t lap = atomic_load(&reader->ring->lap), passed = 0, looks = 0;
  bool again = false;
  lap = lap < RING_RECORDS_BYTES ? lap / 16 * 16 : RING_RECORDS_BYTES;
  for (uint32_t at = reader->tail, next; passed < lap; at = next, passed += 16) {
    next = at + 16 < lap ? at + 16 : 0;
    if (at >= lap || !record_get((const uint64_t *)(reader->memory + at), &head, &word))
      continue;
    if (ring_is_given_up(reader->memory, at)) {
      late += take_late(reader, at, head);
      continue;
    }
    again = !again && at != reader->tail && looks++ < LOOKS;
    if (again) {
      next = reader->tail;
      passed = 0;
      continue;
    }
    if (at != reader->tail)
      take_void(reader);
    reader->tail = at;
    read_ring(process, reader);
    next = reader->tail;
  }
  if (late)
    write_gap(process, reader, late, "ring full");
}

/* Takes up the rings that the host has begun to use. */
static void look_for_rings(struct recorded_process *process) {
  for (uint32_t r = 0; r < process->regions; r++) {
    struct region *region = process->region[r].memory;
    uint32_t rings = process->region[r].rings;
    uint32_t used = atomic_load_explicit(&region->used, memory_order_acquire);
    for (; process->region[r].seen < used && process->region[r].seen < rings; process->region[r].seen++) {
      struct ring_reader *reader = vector_add(&process->readers);
      if (!reader) {
        give_up(process, "out of memory");
        return;
      }
      uint32_t at = process->region[r].seen;
      *reader = (struct ring_reader){.ring = &region->rings[at],
                                     .memory = (char *)region + region_header_bytes(rings) + (uint64_t)at * RING_BYTES,
                                     .thread = -1};
    }
  }
}

/* The thread of the trace; -1: there is none with that serial number. A thread of which only missing calls are known
   has none before. */
static int64_t thread_of_serial(struct recorded_process *process, uint64_t serial) {
  if (serial < process->thread_of_serial.room && process->thread_of_serial.at[serial])
    return process->thread_of_serial.at[serial] - 1;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    if (reader->serial != serial || reader->thread >= 0)
      continue;
    write_gap(process, reader, 0, "calls not recorded yet");
    return reader->thread;
  }
  return -1;
}

/* Makes a call row of the item. Events after a cut are not in the trace, so the accesses end with the last one before
   it: a call row needs an event, and where the recording was not cut, that is in the trace or will be counted. */
static bool take_call(struct recorded_process *process, struct access_item *item) {
  int64_t thread = thread_of_serial(process, item->thread);
  struct thread_calls *calls = thread < 0 ? NULL : vector_reach(&process->calls, (size_t)thread);
  if (!calls) {
    process->accesses_over = "a thread of the stream is not in the trace";
    return false;
  }
  item->thread = (uint32_t)thread;
  calls->rows++;
  if (process->cut_stamp && calls->rows > calls->events)
    process->accesses_over = process->cut_why;
  return !process->accesses_over;
}

/* Precondition: the rings have been read since the stream was: the events of its calls came before them. */
static void take_accesses(struct recorded_process *process) {
  struct access_item item;
  while (access_stream_next(&process->accesses, &item)) {
    if (!writes(process) || (process->accesses_over && item.kind != ACCESS_TOTAL) ||
        (item.kind == ACCESS_BURST && !trace_writer_totals(process->writer)->accesses.in_bursts))
      continue;
    if (item.kind == ACCESS_EVENT && !take_call(process, &item))
      continue;
    int result = trace_writer_access(process->writer, &item);
    if (result > 0)
      process->accesses_over = "the stream has what a trace can't hold";
    if (result < 0)
      give_up(process, "cannot be written");
  }
  if (process->accesses.damaged && !process->accesses_over)
    process->accesses_over = "the stream of accesses is damaged";
}

uint64_t recorded_process_drain(struct recorded_process *process, void (*between)(void *context), void *context) {
  uint64_t records = access_stream_read(&process->accesses);
  uint32_t requested = stack_nodes_requested(&process->stacks);
  look_for_rings(process);
  for (uint32_t i = 0; i < process->readers.count; i++) {
    uint64_t got = drain_ring(process, &process->readers.at[i]);
    records += got;
    if (got && between)
      between(context);
  }
  live_sample_pass(&process->live);
  stack_nodes_answer(&process->stacks, requested);
  if (process->accesses.bytes)
    take_accesses(process);
  return records;
}

void recorded_process_flush(struct recorded_process *process) {
  if (writes(process) && trace_writer_flush(process->writer) != 0)
    give_up(process, "cannot be written");
}

void recorded_process_flush_in_turns(struct recorded_process *process, void (*between)(void *context), void *context) {
  enum { MANY_EVENTS = 4096 };
  uint64_t written = 0;
  for (uint32_t thread = 0; thread < process->threads && writes(process); thread++) {
    uint64_t pending = trace_writer_totals(process->writer)->pending;
    if (trace_writer_flush_thread(process->writer, thread) != 0)
      give_up(process, "cannot be written");
    written += pending - trace_writer_totals(process->writer)->pending;
    if (written < MANY_EVENTS)
      continue;
    recorded_process_drain(process, between, context);
    written = 0;
  }
}

uint64_t recorded_process_file_bytes(const struct recorded_process *process) {
  enum { FOOTER_BYTES = 16 << 10, EVENT_BYTES = 3, SAMPLE_BYTES = 16 };
  const struct trace_totals *running = trace_writer_totals(process->writer);
  return running->file_bytes + (running->pending + running->accesses.pending) * EVENT_BYTES +
         running->access_samples.pending * SAMPLE_BYTES + FOOTER_BYTES;
}

void recorded_process_sample(struct recorded_process *process, uint64_t stamp) {
  struct trace_sample sample;
  live_sample_adapt(&process->live);
  site_sample_adapt(&process->sites);
  if (!writes(process) || !sampler_read(&process->sampler, &sample))
    return;
  if (process->sampler.sandboxed && process->regions)
    atomic_store(&process->region[0].memory->sandboxed, 1);
  for (uint32_t i = 0; process->names && i < process->readers.count; i++)
    look_at_name(process, &process->readers.at[i]);
  sample.stamp = stamp;
  if (process->simulated) /* it is the simulator's memory */
    return;
  if (trace_writer_sample(process->writer, &sample) != 0)
    give_up(process, "cannot be written");
}

void recorded_process_access_sample(struct recorded_process *process, const struct trace_access_sample *sample,
                                    bool kernel) {
  struct trace_access_sample_totals *totals = &trace_writer_totals(process->writer)->access_samples;
  if (sample->stamp < process->origin_stamp || (process->cut_stamp && sample->stamp > process->cut_stamp) ||
      recorded_process_paused(process) || !writes(process))
    return;
  if (kernel)
    totals->kernel++;
  else if (sample->address == 0)
    totals->no_address++;
  else if (trace_writer_access_sample(process->writer, sample) != 0)
    give_up(process, "cannot be written");
}

void recorded_process_samples_lost(struct recorded_process *process, uint64_t lost, uint64_t throttled) {
  trace_writer_totals(process->writer)->access_samples.lost += lost;
  trace_writer_totals(process->writer)->access_samples.throttled += throttled;
}

/* Calls that were nested since this was last asked. */
static uint64_t take_nested(struct recorded_process *process) {
  uint64_t nested = 0, before = process->nested_before;
  for (uint32_t i = 0; i < process->readers.count; i++)
    nested += atomic_load(&process->readers.at[i].ring->nested);
  process->nested_before = nested;
  return nested - before;
}

struct process_missing recorded_process_missing(const struct recorded_process *process) {
  struct process_missing missing = {process->before.dropped + trace_writer_totals(process->writer)->dropped -
                                        process->skipped,
                                    process->before.skipped + process->skipped};
  for (uint32_t i = 0; i < process->readers.count; i++) {
    const struct ring_reader *reader = &process->readers.at[i];
    missing.dropped += unreported(reader, MISSING_RING_FULL);
    missing.skipped += unreported(reader, MISSING_PAUSED);
  }
  return missing;
}

/* Writes what only the rings' counters know: drops that no DROPPED record reported, and events of threads without a
   ring. */
static void settle(struct recorded_process *process) {
  uint64_t orphan = 0;
  for (uint32_t i = 0; i < process->readers.count; i++) {
    struct ring_reader *reader = &process->readers.at[i];
    write_all_missing(process, reader);
    uint64_t marks = atomic_load(&reader->ring->marks_lost);
    if (marks)
      write_gap(process, reader, 0, "marks were lost: ring full");
    thread_ends(process, reader);
  }
  for (uint32_t r = 0; r < process->regions; r++)
    orphan += atomic_load(&process->region[r].memory->orphan);
  if (process->cut_why) {
    struct ring_reader first = {.thread = process->threads ? 0 : -1};
    write_gap(process, &first, 0, process->cut_why);
  }
  if (orphan) {
    struct ring_reader nobody = {.thread = -1};
    write_gap(process, &nobody, orphan, "no ring for the thread, or a fork child in a sandbox");
  }
}

/* The figures of the file that ends. */
static void take_totals(const struct recorded_process *process, struct trace_writer *writer,
                        struct process_totals *totals) {
  memset(totals, 0, sizeof *totals);
  totals->totals = *trace_writer_totals(writer);
  totals->broken = process->broken;
  totals->skipped = process->skipped;
  totals->stacks_lost = stack_nodes_lost(&process->stacks);
  totals->accesses_over = process->accesses_over;
  totals->cut_why = process->cut_why;
  totals->seconds = (double)(os_monotonic_ns() - process->origin_ns) / 1e9;
}

/* The file's size on disk. Returns 0, or -1 with error: it is gone. */
static int measure_file(const char *path, struct process_totals *totals, struct error *error) {
  struct stat status;
  if (stat(path, &status) != 0)
    return error_errno(error, path, "the trace was removed while it was being written");
  totals->totals.file_bytes = (uint64_t)status.st_size;
  return 0;
}

uint64_t recorded_process_calls(const struct recorded_process *process, uint64_t *skipped) {
  *skipped = 0;
  for (uint32_t i = 0; i < process->readers.count; i++)
    *skipped += atomic_load_explicit(&process->readers.at[i].ring->skipped, memory_order_relaxed);
  return process->before.events + trace_writer_totals(process->writer)->events;
}

/* The reader's thread goes on in the next file. What it has begun to read stays with it. A pause that has begun tells
   only as it ends of the calls that it skips; here they explain what other threads were handed out since. */
static void leave_file(struct recorded_process *process, struct ring_reader *reader) {
  put_held(process, reader);
  write_all_missing(process, reader);
  if (reader->thread >= 0) {
    reader->before.thread = (uint32_t)reader->thread;
    reader->before.file = process->file;
  }
  for (uint32_t i = 0; i < reader->begins; i++)
    if (!reader->begun[i].stamp)
      reader->begun[i].stamp = reader->begun[i].inherited;
  reader->name = (struct thread_name){0};
  reader->thread = -1;
}

/* Resizes under way: their release is before the file's end, and their event is in the next one. */
static uint64_t resizes_under_way(const struct recorded_process *process) {
  uint64_t begins = 0;
  for (uint32_t i = 0; i < process->readers.count; i++)
    begins += process->readers.at[i].begins;
  return begins;
}

/* Each thread is drained at another time, so all are held at one stamp, as for a cut: what a ring shows only after the
   pass that follows is depended on by nothing that the pass has read (docs/methods/ORDERING.md). */
static void drain_up_to(struct recorded_process *process, uint64_t stamp) {
  process->hold_stamp = stamp;
  recorded_process_drain(process, NULL, NULL);
  process->hold_stamp = 0;
}

/* Adds what is in the file that has ended. */
static void take_before(struct recorded_process *process, struct trace_writer *old,
                        const struct process_totals *totals) {
  for (int id = 0; id < CALL_LIMIT; id++)
    process->before.calls[id] += totals->totals.calls[id];
  for (uint32_t thread = 0; thread < process->threads; thread++)
    process->before.request_bytes += trace_writer_thread_counts(old, thread).request_bytes;
  process->before.events += totals->totals.events;
  process->before.dropped += totals->totals.dropped - totals->skipped;
  process->before.skipped += totals->skipped;
  process->before.lost += totals->totals.lost;
  process->before.file_bytes += totals->totals.file_bytes;
}

int recorded_process_rotate(struct recorded_process *process, const struct recording_next *next,
                            struct process_totals *totals, bool *ended, struct error *error) {
  struct trace_writer *writer, *old = process->writer;
  char *path = strdup(next->path);
  *ended = false;
  if (!path)
    return error_set(error, next->path, "out of memory");
  if (trace_writer_open(&writer, next->path, next->info_json, NULL, error) != 0) {
    free(path);
    return -1;
  }
  drain_up_to(process, next->stamp);
  for (uint32_t i = 0; i < process->readers.count; i++)
    leave_file(process, &process->readers.at[i]);
  struct trace_totals *running = trace_writer_totals(old);
  running->nested = take_nested(process);
  running->in_flight = process->in_flight + resizes_under_way(process);
  int result = trace_writer_finish(old, "rotated", next->clock_hz, error);
  take_totals(process, old, totals);
  *ended = true;
  take_before(process, old, totals);
  trace_writer_free(old);
  if (measure_file(process->path, totals, error) != 0)
    result = -1;
  free(process->path);
  process->path = path;
  process->writer = writer;
  process->file++;
  process->threads = 0;
  process->in_flight = process->skipped = process->broken = 0;
  process->origin_ns = os_monotonic_ns();
  process->origin_stamp = next->stamp;
  stack_nodes_renew(&process->stacks, writer);
  recorded_process_sample(process, next->stamp);
  return result;
}

int recorded_process_close(struct recorded_process *process, const struct recording_end *end,
                           struct process_totals *totals, struct error *error) {
  while (recorded_process_drain(process, NULL, NULL) > 0)
    ;
  for (uint32_t i = 0; i < process->readers.count; i++)
    drain_behind_empty_slots(process, &process->readers.at[i]);
  settle(process);
  struct trace_totals *running = trace_writer_totals(process->writer);
  running->nested = take_nested(process);
  running->in_flight = process->in_flight;
  if (end->how) {
    running->exit_status = end->how->status_known ? end->how->status : -1;
    running->final_known = end->how->usage_known && !process->simulated;
    running->final = end->how->usage;
  }
  int result = trace_writer_finish(process->writer, end->end, end->clock_hz, error);
  take_totals(process, process->writer, totals);
  trace_writer_free(process->writer);
  if (result == 0 && process->given_up)
    result = error_set(error, process->path, "%s", process->given_up);
  struct error gone;
  if (measure_file(process->path, totals, result == 0 ? error : &gone) != 0)
    result = -1;
  stack_nodes_close(&process->stacks);
  live_sample_close(&process->live);
  site_sample_close(&process->sites);
  access_stream_close(&process->accesses);
  free(process->thread_of_serial.at);
  free(process->calls.at);
  for (uint32_t r = 0; r < process->regions; r++)
    munmap(process->region[r].memory, region_bytes(process->region[r].rings));
  sampler_close(&process->sampler);
  if (process->pid_fd >= 0)
    close(process->pid_fd);
  free(process->readers.at);
  free(process->path);
  free(process);
  return result;
}
