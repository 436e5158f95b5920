/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/ring_reading.h"

#include "capture/recorder/processes/side_stream.h"
#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/trace/layout.h"

#include <stdio.h>
#include <string.h>

void ring_reading_name(struct recorded_process *process, struct ring_reader *reader) {
  if (process->names && reader->thread >= 0 && process_writes(process) &&
      thread_name_refresh(&reader->name, process->pid, atomic_load(&reader->ring->owner), os_monotonic_ns()) &&
      trace_writer_thread_name(process->writer, (uint32_t)reader->thread, reader->name.text) != 0)
    process_banks_give_up(process, "cannot be written");
}

/* Names the thread's place in the earlier file, by which a reader of both files joins them. */
static void name_before(struct recorded_process *process, struct ring_reader *reader) {
  char why[64];
  if (!reader->before.file || !process_writes(process))
    return;
  snprintf(why, sizeof why, TRACE_CONTINUES, reader->before.thread, reader->before.file);
  if (trace_writer_gap(process->writer, (uint32_t)reader->thread, 0, why) != 0)
    process_banks_give_up(process, "cannot be written");
  reader->before.file = 0;
}

static bool new_thread(struct recorded_process *process, struct ring_reader *reader) {
  _Static_assert(PROCESS_THREADS_MOST == 4194304, "the words below");
  if (process->threads >= PROCESS_THREADS_MOST) {
    process_banks_give_up(process, "more than 4,194,304 threads (in one file: --rotate begins others)");
    return false;
  }
  reader->thread = process->threads++;
  name_before(process, reader);
  if (process->side)
    process->side->reader->note_thread(process->side, reader->serial, (uint32_t)reader->thread);
  if (reader->ring)
    ring_reading_name(process, reader);
  return true;
}

/* Is the trace still being written, and the thread in it? */
static inline bool has_thread(struct recorded_process *process, struct ring_reader *reader) {
  return process_writes(process) && (__builtin_expect(reader->thread >= 0, 1) || new_thread(process, reader));
}

/* Adds calls of the thread that are in the trace, or counted as missing. */
static inline void count_calls(struct recorded_process *process, uint32_t thread, uint64_t calls) {
  if (__builtin_expect(process->side != NULL, 0))
    process->side->reader->count_calls(process->side, thread, calls);
}

static inline void count_balance(struct recorded_process *process, uint64_t address, bool acquires, uint64_t stamp) {
  if (__builtin_expect(address && balance_has(&process->balance, address), 0))
    balance_add(&process->balance, address, acquires, stamp);
}

static void put_event(struct recorded_process *process, struct ring_reader *reader, const struct trace_event *event) {
  if (has_thread(process, reader) && trace_writer_event(process->writer, (uint32_t)reader->thread, event) == 0) {
    count_calls(process, (uint32_t)reader->thread, 1);
    return;
  }
  trace_writer_totals(process->writer)->lost++;
  process_banks_give_up(process, "cannot be written");
}

/* Writes the event that was held back for its latency, if there is one. */
static void put_held(struct recorded_process *process, struct ring_reader *reader) {
  if (reader->holds)
    put_event(process, reader, &reader->held);
  reader->holds = false;
}

void ring_reading_gap(struct recorded_process *process, struct ring_reader *reader, uint64_t dropped, const char *why) {
  put_held(process, reader);
  if (!has_thread(process, reader))
    trace_writer_totals(process->writer)->lost += dropped;
  else if (trace_writer_gap(process->writer, (uint32_t)reader->thread, dropped, why) != 0)
    process_banks_give_up(process, "cannot be written");
  else
    count_calls(process, (uint32_t)reader->thread, dropped);
}

static uint64_t counted(const struct ring_reader *reader, enum missing why) {
  return atomic_load(why == MISSING_PAUSED ? &reader->ring->skipped : &reader->ring->dropped);
}

/* Can the host have counted from before to all? It counts at most once in a nanosecond. */
static bool is_possible(const struct recorded_process *process, uint64_t all, uint64_t before) {
  return all == before || (all > before && all - before <= os_monotonic_ns() - process->began_ns);
}

uint64_t ring_reading_unreported(const struct recorded_process *process, const struct ring_reader *reader,
                                 enum missing why) {
  uint64_t all = counted(reader, why), before = reader->reported[why];
  return is_possible(process, all, before) ? all - before : 0;
}

uint64_t ring_reading_growth(struct recorded_process *process, uint64_t all, uint64_t *before) {
  bool possible = is_possible(process, all, *before);
  uint64_t growth = possible ? all - *before : 0;
  process->broken += !possible;
  *before = all;
  return growth;
}

/* Writes those of the first `first` missing calls counted by the ring that no file has yet. */
static void write_missing(struct recorded_process *process, struct ring_reader *reader, enum missing why,
                          uint64_t first) {
  uint64_t all = counted(reader, why), before = reader->reported[why];
  if (!is_possible(process, all, before)) {
    ring_reading_growth(process, all, &reader->reported[why]);
    ring_reading_gap(process, reader, 0, COUNTER_OVERWRITTEN);
    return;
  }
  all = all < first ? all : first;
  if (all <= before)
    return;
  reader->reported[why] = all;
  if (why == MISSING_PAUSED)
    process->skipped += all - before;
  const char *paused =
      process_banks_paused(process) & PAUSED_BY_SANDBOX ? "no clock is permitted" : process->pause_word;
  ring_reading_gap(process, reader, all - before, why == MISSING_PAUSED ? paused : "ring full");
}

void ring_reading_cut(struct ring_reader *reader) {
  for (enum missing why = 0; why < MISSING_KINDS; why++)
    reader->at_cut[why] = counted(reader, why);
}

void ring_reading_missing(struct recorded_process *process, struct ring_reader *reader) {
  for (enum missing why = 0; why < MISSING_KINDS; why++)
    write_missing(process, reader, why, process->cut_stamp ? reader->at_cut[why] : UINT64_MAX);
}

void ring_reading_end_thread(struct recorded_process *process, struct ring_reader *reader) {
  put_held(process, reader);
  if (reader->thread >= 0 && process_writes(process))
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
static struct touched touched_in(uint64_t word) {
  struct touched touched = {(uint32_t)word, (uint32_t)(word >> 32)};
  if (touched.os_pages == UINT32_MAX)
    touched.os_pages--;
  if ((uint32_t)__builtin_popcount(touched.parts) > touched.os_pages)
    touched.parts = 0;
  return touched;
}

/* Resident OS pages plus 1, or 0, of the object at address, whose release is the record just read. The address is
   compared, as the event to which a TOUCHED record belonged may have been dropped. */
static struct touched take_touched(struct ring_reader *reader, uint64_t address) {
  struct touched touched = {0, 0};
  if (address && address == reader->touched_address)
    touched = (struct touched){reader->touched.os_pages + 1, reader->touched.parts};
  reader->touched_address = 0;
  return touched;
}

static void put_touched(struct trace_event *event, struct touched touched) {
  event->touched_os_pages = touched.os_pages;
  event->touched_parts = touched.parts;
}

static void take_begin(struct recorded_process *process, struct ring_reader *reader, uint64_t address, uint64_t stamp) {
  if (reader->begins == BEGINS_MAX) /* handlers left by longjmp: the oldest resize can no longer end */
    memmove(reader->begun, reader->begun + 1, --reader->begins * sizeof *reader->begun);
  reader->begun[reader->begins].address = address;
  reader->begun[reader->begins].touched = take_touched(reader, address);
  reader->begun[reader->begins].inherited = reader->last_stamp;
  reader->last_stamp = stamp ? stamp : reader->last_stamp;
  reader->begun[reader->begins++].stamp = stamp;
  count_balance(process, address, false, reader->last_stamp);
}

static void take_columns(struct recorded_process *process, struct ring_reader *reader, struct trace_event *event) {
  if (event->call & CALL_NULL_OUT)
    reader->columns.slack = 0;
  event->latency = reader->columns.latency;
  event->slack_bytes = reader->columns.slack;
  if (reader->columns.stack && process_writes(process))
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

/* Is there such a call, with that address or none, and of a size below 2^56? Else a reader would refuse the trace. */
static inline bool call_is_possible(uint8_t op, uint64_t address, const struct trace_event *event) {
  uint8_t traits = call_traits[op];
  bool has_address = traits & EVENT_ACQUIRES || (!call_table[op & CALL_ID_MASK].acquires && traits & EVENT_TAKES);
  return (traits & CALL_IS_LEGAL) && has_address == (address != 0) &&
         (!(traits & EVENT_ACQUIRES) || trace_event_request_bytes(event) >> 56 == 0);
}

static void take_event(struct recorded_process *process, struct ring_reader *reader, uint8_t op, uint64_t address,
                       uint64_t word) {
  const struct call_info *info = &call_table[op & CALL_ID_MASK];
  struct trace_event event = {.call = op, .param = reader->param};
  uint64_t stamp = info->has_size ? reader->stamp : word;
  if (reader->thread < 0 && !stamp && reader->last_stamp)
    stamp = reader->last_stamp; /* the first step in this file, whose stamp is in the file before */
  if (reader->thread < 0 && !stamp && !reader->begins)
    stamp = process->origin_stamp; /* only a host that overwrote its ring has a first step without a stamp */
  reader->last_stamp = stamp ? stamp : reader->last_stamp;
  reader->param = reader->stamp = 0;
  event.size_bytes = info->has_size ? word : 0;
  put_held(process, reader);
  if (__builtin_expect(!call_is_possible(op, address, &event), 0)) {
    process->broken++;
    return;
  }
  if (!info->acquires) {
    if (__builtin_expect(info->released == NOTHING, 0))
      settings_made_note(&process->settings, &event);
    event.released = address;
    put_touched(&event, take_touched(reader, address));
    if (__builtin_expect(event.touched_os_pages || live_sample_has(&process->live, address), 0))
      sample_release(process, reader, &event);
    if (trace_event_releases(&event))
      count_balance(process, address, false, reader->last_stamp);
    if (address)
      event.release_stamp = stamp;
    else
      event.acquire_stamp = stamp;
  } else {
    reader->touched_address = 0;
    event.acquired = address;
    event.acquire_stamp = stamp;
    if (info->released == RELEASES && !(op & CALL_NULL_IN)) {
      event.released = reader->begins ? reader->begun[--reader->begins].address : 0;
      if (!event.released) {
        process->broken++;
        return;
      }
      event.release_stamp = reader->begun[reader->begins].stamp;
      if (trace_event_releases(&event))
        put_touched(&event, reader->begun[reader->begins].touched);
      sample_release(process, reader, &event);
      if (!trace_event_releases(&event))
        count_balance(process, event.released, true, reader->last_stamp);
    }
    if (trace_event_acquires(&event))
      count_balance(process, address, true, reader->last_stamp);
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

/* Takes a record of at most 15 bytes of text. If these are too many for one mark, the first ones belonged to a lost
   mark and are dropped. */
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

/* length: of the text, which the last TEXT records hold. */
static void take_mark(struct recorded_process *process, struct ring_reader *reader, uint64_t length, uint64_t stamp) {
  uint64_t bytes = (length / 15 + 1) * 15;
  if (length > 255 || bytes > reader->text_bytes) {
    process->broken++;
  } else {
    char *text = reader->text + reader->text_bytes - bytes;
    text[length] = '\0';
    struct trace_mark mark = {.stamp = stamp, .events = TRACE_MARK_HERE, .text = text};
    if (reader->thread < 0) /* so that the thread has a block before the mark names it */
      ring_reading_gap(process, reader, 0, "a mark before the first event");
    put_held(process, reader);
    mark.thread = (uint32_t)reader->thread;
    if (has_thread(process, reader) && trace_writer_mark(process->writer, &mark) != 0)
      process_banks_give_up(process, "cannot be written");
  }
  reader->text_bytes = 0;
}

/* The call to which the previous records belong was not completed. */
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
    take_begin(process, reader, head >> 8, word);
    break;
  case RECORD_TOUCHED:
    reader->touched_address = head >> 8;
    reader->touched = touched_in(word);
    break;
  case RECORD_LIVE:
    if (process_writes(process) && trace_writer_touched(process->writer, head >> 8, touched_in(word)))
      process_banks_give_up(process, "cannot be written");
    break;
  case RECORD_THREAD:
    ring_reading_end_thread(process, reader);
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

/* Reads the ring up to its first empty slot and wakes threads that wait for room. Returns the number of records. */
static uint64_t drain(struct recorded_process *process, struct ring_reader *reader) {
  struct ring *ring = reader->ring;
  bool overwritten = ring_tail(ring) != reader->tail; /* the host would wait forever for such a tail to move */
  if (reader->stopped && is_at_empty_slot(reader) && !overwritten)
    return 0;
  atomic_store(&ring->stopped, 0);
  uint64_t records = read_ring(process, reader);
  ring_set_tail(ring, reader->tail);
  reader->stopped = is_at_empty_slot(reader);
  if (reader->stopped)
    atomic_store(&ring->stopped, reader->tail + 1);
  if (atomic_load(&ring->waiting)) {
    atomic_store(&ring->waiting, 0);
    atomic_store(&ring->woken, os_stamp());
    atomic_fetch_add(&ring->drained, 1);
    os_futex_wake((const uint32_t *)&ring->drained, 1, true);
  }
  return records;
}

/* A record in a slot that was given up is too late: its event is missing, and counted once. */
static uint64_t take_late(struct ring_reader *reader, uint32_t at, uint64_t head) {
  memset(reader->memory + at, 0, 16);
  return head != RECORD_VOID && (uint8_t)head != RECORD_PARAM;
}

/* Reads records behind empty slots that will not be filled any more, as their calls have not been completed. Where the
   program continues, a thread may write during this search: a record found behind empty slots may be the end of what it
   has just written. So the search starts again from the tail: everything that the thread wrote before the found record
   is visible now. */
void ring_reading_drain_rest(struct recorded_process *process, struct ring_reader *reader) {
  enum { RESCANS = 64 }; /* a host can write without end, and all that it writes now is after the cut */
  uint64_t head, word, late = 0;
  uint32_t lap = atomic_load(&reader->ring->lap), passed = 0, rescans = 0;
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
    again = !again && at != reader->tail && rescans++ < RESCANS;
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
    ring_reading_gap(process, reader, late, "ring full");
}

void ring_reading_find(struct recorded_process *process) {
  for (uint32_t r = 0; r < process->banks; r++) {
    struct bank *bank = process->bank[r].memory;
    uint32_t rings = process->bank[r].rings;
    uint32_t used = atomic_load_explicit(&bank->used, memory_order_acquire);
    for (; process->bank[r].seen < used && process->bank[r].seen < rings; process->bank[r].seen++) {
      struct ring_reader *reader = vector_add(&process->readers);
      if (!reader) {
        process_banks_give_up(process, "out of memory");
        return;
      }
      uint32_t at = process->bank[r].seen;
      *reader = (struct ring_reader){.ring = &bank->rings[at],
                                     .memory = (char *)bank + bank_header_bytes(rings) + (uint64_t)at * RING_BYTES,
                                     .thread = -1};
    }
  }
}

/* Skipped calls are otherwise reported only when their pause ends; reported here, they explain objects that other
   threads have acquired since. */
void ring_reading_leave_file(struct recorded_process *process, struct ring_reader *reader) {
  put_held(process, reader);
  ring_reading_missing(process, reader);
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

uint64_t ring_reading_drain_all(struct recorded_process *process, void (*between)(void *context), void *context) {
  struct side_stream *side = process->side;
  uint64_t records = side ? side->reader->read(side) : 0;
  uint32_t requested = stack_nodes_requested(&process->stacks);
  ring_reading_find(process);
  for (uint32_t i = 0; i < process->readers.count; i++) {
    uint64_t got = drain(process, &process->readers.at[i]);
    records += got;
    if (got && between)
      between(context);
  }
  live_sample_pass(&process->live);
  balance_pass(&process->balance);
  stack_nodes_answer(&process->stacks, requested);
  if (side)
    side->reader->take(side, process);
  return records;
}

void ring_reading_drain_left(struct recorded_process *process, void (*between)(void *context), void *context) {
  enum { PASSES = 64 }; /* two read all that one process can have left */
  for (int pass = 0; pass < PASSES && ring_reading_drain_all(process, between, context) > 0; pass++)
    ;
}
