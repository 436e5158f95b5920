/* SPDX-License-Identifier: MIT */
#include "convert/history/history.h"

#include "convert/history/merge.h"
#include "convert/history/ranges.h"
#include "convert/history/trace_info.h"
#include "core/base/address_map.h"
#include "core/base/assert.h"
#include "core/base/touched.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Recently released addresses, to distinguish a double free from an unseen one: entry h holds the last released address
   that hashes to h. An exact answer would need memory for every address ever seen. 512 KiB stay in the second-level
   cache. */
enum { RECENT_BITS = 16 };

/* No allocator hands out more than this, in one object or in total; it keeps sums far from overflow. */
#define MAX_LIVE_BYTES (1ull << 62)

/* Threads that wait until an address becomes live or is released. A parked thread is out of the merge; parked threads
   are listed by the stamp of their waiting step, oldest first. */
enum { PARKING_BUCKETS = 1024 };
#define PARKING_NONE UINT32_MAX

struct parked_thread {
  uint64_t address, stamp;
  uint64_t since;         /* steps placed when it was first parked for its present step */
  uint64_t awaited_stamp; /* stamp of the step that woke it */
  uint32_t next_in_bucket, older, newer;
  bool wants_live; /* waits until the address is live; false: until it is released */
  bool parked, waited, woken, forced;
};

struct parking {
  struct parked_thread *threads;
  uint32_t buckets[PARKING_BUCKETS]; /* first thread waiting for an address of that hash */
  uint32_t oldest, newest;
  uint32_t count;    /* parked now */
  uint32_t any_flag; /* threads parked now, or woken and not yet cleared: if 0, the fast path skips all this */
};

static bool parking_init(struct parking *parking, uint32_t threads) {
  memset(parking, 0, sizeof *parking);
  memset(parking->buckets, 0xff, sizeof parking->buckets);
  parking->oldest = parking->newest = PARKING_NONE;
  parking->threads = calloc(threads + 1, sizeof *parking->threads);
  return parking->threads != NULL;
}

static uint32_t *bucket_of(struct parking *parking, uint64_t address) {
  return &parking->buckets[(address * 0x9e3779b97f4a7c15u >> 32) % PARKING_BUCKETS];
}

/* Inserts it into the list by stamp, from the newest end: threads mostly park in the order of their stamps. */
static void list_insert(struct parking *parking, uint32_t number) {
  struct parked_thread *threads = parking->threads, *thread = &threads[number];
  uint32_t older = parking->newest;
  while (older != PARKING_NONE && threads[older].stamp > thread->stamp)
    older = threads[older].older;
  thread->older = older;
  thread->newer = older == PARKING_NONE ? parking->oldest : threads[older].newer;
  *(older == PARKING_NONE ? &parking->oldest : &threads[older].newer) = number;
  *(thread->newer == PARKING_NONE ? &parking->newest : &threads[thread->newer].older) = number;
}

static void list_remove(struct parking *parking, uint32_t number) {
  struct parked_thread *threads = parking->threads, *thread = &threads[number];
  *(thread->older == PARKING_NONE ? &parking->oldest : &threads[thread->older].newer) = thread->newer;
  *(thread->newer == PARKING_NONE ? &parking->newest : &threads[thread->newer].older) = thread->older;
}

/* Parks the thread of the step, which is the one that merge_peek returned. steps_placed: so far. */
static void parking_park(struct parking *parking, struct merge *merge, const struct merge_step *step,
                         uint64_t steps_placed) {
  struct parked_thread *thread = &parking->threads[step->thread];
  if (!thread->waited) {
    thread->since = steps_placed;
    thread->waited = true;
    parking->any_flag++;
  }
  thread->wants_live = !step->acquires;
  thread->address = step->acquires ? step->event->acquired : step->event->released;
  thread->stamp = step->stamp;
  thread->woken = false;
  thread->parked = true;
  uint32_t *bucket = bucket_of(parking, thread->address);
  thread->next_in_bucket = *bucket;
  *bucket = step->thread;
  list_insert(parking, step->thread);
  parking->count++;
  merge_park(merge);
}

/* Removes the thread that *link names from its bucket and the list, and returns it to the merge. */
static void unpark(struct parking *parking, struct merge *merge, uint32_t *link) {
  uint32_t number = *link;
  struct parked_thread *thread = &parking->threads[number];
  *link = thread->next_in_bucket;
  list_remove(parking, number);
  thread->parked = false;
  parking->count--;
  merge_resume(merge, number);
}

/* The address has become live, or was released, in a step of that stamp: threads that wait for this return to the
   merge. */
static __attribute__((noinline)) void parking_wake_slowly(struct parking *parking, struct merge *merge,
                                                          uint64_t address, bool live, uint64_t stamp) {
  uint32_t *link = bucket_of(parking, address);
  while (*link != PARKING_NONE) {
    struct parked_thread *thread = &parking->threads[*link];
    if (thread->address == address && thread->wants_live == live) {
      thread->woken = true;
      thread->awaited_stamp = stamp;
      unpark(parking, merge, link);
    } else {
      link = &thread->next_in_bucket;
    }
  }
}

static inline void parking_wake(struct parking *parking, struct merge *merge, uint64_t address, bool live,
                                uint64_t stamp) {
  if (parking->count)
    parking_wake_slowly(parking, merge, address, live, stamp);
}

/* Is the oldest parked step more than the horizon before that stamp? There must be one. */
static bool parking_is_overdue(const struct parking *parking, uint64_t stamp, uint64_t horizon) {
  uint64_t oldest = parking->threads[parking->oldest].stamp;
  return stamp > oldest && stamp - oldest > horizon;
}

/* Returns the oldest parked thread to the merge; its step will be placed by force. There must be one. */
static void parking_give_up(struct parking *parking, struct merge *merge) {
  uint32_t number = parking->oldest;
  struct parked_thread *thread = &parking->threads[number];
  uint32_t *link = bucket_of(parking, thread->address);
  while (*link != number)
    link = &parking->threads[*link].next_in_bucket;
  thread->forced = true;
  unpark(parking, merge, link);
}

struct history {
  struct trace_reader *reader;
  struct error *error;
  const struct history_options *options;
  const struct history_consumer *consumer;
  struct witness *witness;
  const json_t *set_before; /* as in trace_info */
  struct merge *merge;
  struct address_map map;
  struct slots slots;
  struct merge_lookups lookups;
  struct parking parking;
  struct ranges *ranges; /* NULL: not requested */
  uint32_t *limbo;       /* of each thread: the object that is between the two steps of a realloc; SLOTS_NONE: none */
  uint64_t *recent;
  struct live_totals live;
  uint64_t horizon;
  uint64_t steps_placed;
};

enum placing { PLACED, BLOCKED, FAILED };

static uint64_t *recent_entry(struct history *history, uint64_t address) {
  return &history->recent[address * 0x9e3779b97f4a7c15u >> (64 - RECENT_BITS)];
}

static int hand_on_op(struct history *history, const struct history_op *op) {
  const struct history_consumer *consumer = history->consumer;
  return consumer->op(consumer->context, op, &history->slots);
}

/* Hands the step on as an op, with the totals before it. request_bytes: of ACQUIRE and MOVE, else 0. */
static ALWAYS_INLINE int hand_on(struct history *history, const struct merge_step *step, enum history_kind kind,
                                 uint32_t slot, uint64_t request_bytes) {
  history->witness->ops++;
  if (!history->consumer)
    return 0;
  const struct trace_event *event = step->event;
  /* A realloc that acquires was given an object never seen. */
  bool unseen = kind == HISTORY_ACQUIRE && (step->traits & EVENT_TAKES);
  /* Set field by field: an initialiser clears the whole struct with overlapping stores, and a consumer that reads a
     field written by two stores waits until both are in the cache. */
  struct history_op op;
  op.kind = kind;
  op.call = unseen ? event->call | CALL_NULL_IN : event->call;
  op.region = 0;
  op.moved = false;
  op.thread = step->thread;
  op.slot = slot;
  op.touched_os_pages = event->touched_os_pages;
  op.touched_parts = event->touched_parts;
  op.size_bytes = event->size_bytes;
  op.param = event->param;
  op.request_bytes = request_bytes;
  op.stamp = step->stamp;
  op.event = event;
  op.before = &history->live.state;
  return hand_on_op(history, &op);
}

static enum placing fail(struct history *history, const struct merge_step *step, const char *what) {
  error_set(history->error, trace_reader_path(history->reader), "thread %" PRIu32 ": %s: %s", step->thread,
            call_table[step->event->call & CALL_ID_MASK].name, what);
  return FAILED;
}

/* An object, as stored in the map and limbo: its slot, if there is a consumer. Without a consumer slots are not needed,
   and each costs a cache miss: then it is the object's size, or LARGE and the slot that has the size. */
#define LARGE (1u << 31)

static inline uint64_t object_bytes(const struct history *history, uint32_t object) {
  if (!history->consumer && !(object & LARGE))
    return object;
  return history->slots.at[history->consumer ? object : object & ~LARGE].size_bytes;
}

/* Returns SLOTS_NONE if there is no memory, or no free number. */
static inline uint32_t object_new(struct history *history, uint64_t size_bytes, uint32_t thread) {
  if (!history->consumer && size_bytes < LARGE)
    return (uint32_t)size_bytes;
  uint32_t slot = slots_take(&history->slots, thread);
  if (slot == SLOTS_NONE || (!history->consumer && slot >= LARGE - 1))
    return SLOTS_NONE;
  history->slots.at[slot].size_bytes = size_bytes;
  return history->consumer ? slot : slot | LARGE;
}

static inline void object_free(struct history *history, uint32_t object, uint32_t thread) {
  if (history->consumer)
    slots_give(&history->slots, object, thread);
  else if (object & LARGE)
    slots_give(&history->slots, object & ~LARGE, thread);
}

/* The object at the entry's address is released; it still has its size. */
static inline void forget_address(struct history *history, struct address_entry *entry) {
  if (entry->in_ranges)
    ranges_remove(history->ranges, entry->address, object_bytes(history, entry->slot));
  address_map_remove(&history->map, entry);
}

/* An object now lives at the address. entry: its place from address_map_find. Returns false if there is no memory. */
static ALWAYS_INLINE bool remember_address(struct history *history, struct address_entry *entry, uint64_t address,
                                           uint32_t slot, uint64_t request_bytes) {
  bool in_ranges = false;
  if (history->ranges) {
    enum ranges_result result = ranges_add(history->ranges, address, request_bytes);
    if (result == RANGES_NO_MEMORY)
      return false;
    in_ranges = result == RANGES_ADDED;
    history->witness->overlapping_ranges += result == RANGES_OVERLAP;
  }
  return address_map_add(&history->map, entry, address, slot, in_ranges);
}

/* The object was released by the thread; the op has been handed on. */
static inline void end_object(struct history *history, uint32_t object, uint32_t thread) {
  HT_ASSERT(history->live.state.live_objects > 0);
  live_subtract(&history->live, object_bytes(history, object));
  history->live.state.live_objects--;
  object_free(history, object, thread);
}

static enum placing leave_out(struct history *history, const struct merge_step *step, uint32_t slot) {
  const struct history_consumer *consumer = history->consumer;
  return consumer && consumer->left_out && consumer->left_out(consumer->context, step, slot) != 0 ? FAILED : PLACED;
}

static enum placing give_up_release(struct history *history, const struct merge_step *step) {
  struct witness *witness = history->witness;
  if (!(step->traits & EVENT_RELEASES)) {
    witness->unseen_touches++;
    witness->failed_calls += (step->event->call & CALL_NULL_OUT) != 0;
  } else if (*recent_entry(history, step->event->released) == step->event->released) {
    witness->double_frees++;
  } else {
    witness->unseen_frees++;
  }
  return leave_out(history, step, SLOTS_NONE);
}

static ALWAYS_INLINE enum placing place_release(struct history *history, const struct merge_step *step, bool forced) {
  const struct trace_event *event = step->event;
  uint64_t address = event->released;
  if (address == 0)
    return fail(history, step, "address 0 without the flag NULL_IN");
  struct address_entry *entry = address_map_find(&history->map, address);
  if (!entry->address)
    return forced ? give_up_release(history, step) : BLOCKED;
  uint32_t slot = entry->slot;
  if (!(step->traits & EVENT_RELEASES)) {
    if (event->call & CALL_NULL_OUT) { /* a failed realloc; its object stays live */
      history->witness->failed_calls++;
      return leave_out(history, step, slot);
    }
    return hand_on(history, step, HISTORY_TOUCH, slot, 0) == 0 ? PLACED : FAILED;
  }
  forget_address(history, entry);
  *recent_entry(history, address) = address;
  if (step->traits & EVENT_ACQUIRES) {
    history->limbo[step->thread] = slot;
    const struct history_consumer *consumer = history->consumer;
    if (consumer && consumer->move_begins && consumer->move_begins(consumer->context, step, slot) != 0)
      return FAILED;
  } else {
    if (hand_on(history, step, HISTORY_RELEASE, slot, 0) != 0)
      return FAILED;
    end_object(history, slot, step->thread);
  }
  parking_wake(&history->parking, history->merge, address, false, step->stamp);
  return PLACED;
}

/* An acquire overlaps the object at a live address: it must have been freed unseen, so a free is inserted. */
static enum placing end_overlapped(struct history *history, const struct merge_step *step,
                                   struct address_entry *entry) {
  struct history_op op = {.kind = HISTORY_RELEASE,
                          .call = CALL_free,
                          .thread = step->thread,
                          .slot = entry->slot,
                          .stamp = step->stamp,
                          .before = &history->live.state};
  forget_address(history, entry);
  history->witness->overlapping_acquires++;
  history->witness->ops++;
  if (history->consumer && hand_on_op(history, &op) != 0)
    return FAILED;
  end_object(history, op.slot, op.thread);
  return PLACED;
}

/* Hands on the acquire, or the end of a realloc, of the object that now lives at the event's new address. */
static ALWAYS_INLINE enum placing begin_object(struct history *history, const struct merge_step *step,
                                               struct address_entry *entry, uint64_t request) {
  const struct trace_event *event = step->event;
  uint32_t old = history->limbo[step->thread], object = old;
  bool moves = old != SLOTS_NONE;
  uint64_t old_bytes = moves ? object_bytes(history, old) : 0;
  if (moves)
    history->limbo[step->thread] = SLOTS_NONE;
  if (moves && !history->consumer)
    object_free(history, old, step->thread);
  if (!moves || !history->consumer)
    object = object_new(history, request, step->thread);
  if (object == SLOTS_NONE)
    return fail(history, step, "out of memory, or more live objects than a workload can number");
  if (!remember_address(history, entry, event->acquired, object, request))
    return fail(history, step, "out of memory");
  if (hand_on(history, step, moves ? HISTORY_MOVE : HISTORY_ACQUIRE, object, request) != 0)
    return FAILED;
  if (moves) {
    live_subtract(&history->live, old_bytes);
    if (history->consumer)
      history->slots.at[object].size_bytes = request;
  } else {
    live_begin_object(&history->live);
  }
  live_add(&history->live, request);
  return PLACED;
}

static ALWAYS_INLINE enum placing place_acquire(struct history *history, const struct merge_step *step, bool forced) {
  uint64_t address = step->event->acquired;
  if (address == 0)
    return fail(history, step, "address 0 without the flag NULL_OUT");
  uint64_t request = trace_event_request_bytes(step->event);
  if (request >= MAX_LIVE_BYTES - history->live.state.live_bytes)
    return fail(history, step, "was given more memory than any machine has");
  struct address_entry *entry = address_map_find(&history->map, address);
  if (entry->address) {
    if (!forced)
      return BLOCKED;
    if (end_overlapped(history, step, entry) != PLACED)
      return FAILED;
    entry = address_map_find(&history->map, address);
  }
  if (begin_object(history, step, entry, request) != PLACED)
    return FAILED;
  parking_wake(&history->parking, history->merge, address, true, step->stamp);
  return PLACED;
}

/* A step without an address: free(NULL) is an op, as is a control call; a call that returned nothing is only counted.
 */
static enum placing place_nothing(struct history *history, const struct merge_step *step) {
  if (step->event->call & CALL_NULL_OUT) {
    history->witness->failed_calls++;
    return leave_out(history, step, SLOTS_NONE);
  }
  if (call_is_control(step->event->call))
    control_counts_add(&history->witness->controls, step->event->call, step->event->param, step->event->size_bytes);
  return hand_on(history, step, HISTORY_NOTHING, SLOTS_NONE, 0) == 0 ? PLACED : FAILED;
}

static ALWAYS_INLINE enum placing place(struct history *history, const struct merge_step *step, bool forced) {
  if (step->acquires)
    return place_acquire(history, step, forced);
  return step->traits & EVENT_TAKES ? place_release(history, step, forced) : place_nothing(history, step);
}

/* The thread waited for the step until it became possible: was the order inverted? */
static void count_inversion(struct history *history, const struct merge_step *step) {
  const struct parked_thread *thread = &history->parking.threads[step->thread];
  struct witness *witness = history->witness;
  if (!thread->woken || thread->forced || thread->awaited_stamp <= step->stamp)
    return;
  witness->inversions_repaired++;
  if (history->steps_placed - thread->since > witness->max_inversion_depth)
    witness->max_inversion_depth = history->steps_placed - thread->since;
}

static void end_thread(struct history *history, uint32_t thread) {
  const struct history_consumer *consumer = history->consumer;
  slots_end_thread(&history->slots, thread);
  if (consumer && consumer->thread_end)
    consumer->thread_end(consumer->context, thread);
}

/* Passes a placed step. Returns as merge_advance. */
static ALWAYS_INLINE int pass(struct history *history, const struct merge_step *step) {
  struct witness *witness = history->witness;
  history->steps_placed++;
  if (step->is_last) {
    witness->calls[step->event->call & CALL_ID_MASK]++;
    if (__builtin_expect((++witness->events & 0xffff) == 0, 0) && history->options->progress)
      history->options->progress(history->options->progress_context, witness->events);
  }
  uint32_t thread = step->thread;
  int more = merge_advance(history->merge);
  if (__builtin_expect(more == MERGE_ENDED, 0))
    end_thread(history, thread);
  return more;
}

/* Places the thread's steps as long as they are next and none has to wait. */
static int place_unparked(struct history *history, const struct merge_step *step, enum placing *placed) {
  int more;
  do {
    *placed = place(history, step, false);
    if (__builtin_expect(*placed != PLACED, 0))
      return MERGE_MORE;
    more = pass(history, step);
  } while (more == MERGE_SAME_THREAD);
  return more;
}

/* Places one step, of a thread that may have waited. */
static int place_woken(struct history *history, const struct merge_step *step, enum placing *placed) {
  struct parked_thread *thread = &history->parking.threads[step->thread];
  *placed = place(history, step, thread->forced);
  if (*placed != PLACED)
    return MERGE_MORE;
  count_inversion(history, step);
  history->parking.any_flag -= thread->waited;
  thread->waited = thread->woken = thread->forced = false;
  return pass(history, step);
}

/* What was set before the trace begins: ops before the first step, as of its thread. */
static int place_set_before(struct history *history) {
  const struct merge_step *first;
  const json_t *setting;
  size_t i;
  if (json_array_size(history->set_before) == 0 || merge_peek(history->merge, &first) <= 0)
    return 0;
  json_array_foreach(history->set_before, i, setting) {
    uint64_t call = (uint64_t)json_integer_value(json_array_get(setting, 0));
    if (call >= CALL_LIMIT || !call_is_control((uint8_t)call))
      continue;
    const struct trace_event event = {.call = (uint8_t)call,
                                      .param = (uint64_t)json_integer_value(json_array_get(setting, 1)),
                                      .size_bytes = (uint64_t)json_integer_value(json_array_get(setting, 2)),
                                      .acquire_stamp = first->stamp};
    const struct merge_step step = {
        .event = &event, .stamp = first->stamp, .thread = first->thread, .traits = trace_event_traits(&event)};
    if (place_nothing(history, &step) != PLACED)
      return -1;
  }
  return 0;
}

static int run(struct history *history) {
  struct parking *parking = &history->parking;
  for (;;) {
    const struct merge_step *step;
    int got = merge_peek(history->merge, &step);
    if (got < 0)
      return -1;
    if (got == 0 && parking->count == 0)
      return 0;
    if (parking->count && (got == 0 || parking_is_overdue(parking, step->stamp, history->horizon))) {
      parking_give_up(parking, history->merge);
      continue;
    }
    enum placing placed;
    int more = parking->any_flag ? place_woken(history, step, &placed) : place_unparked(history, step, &placed);
    if (placed == FAILED)
      return error_set(history->error, trace_reader_path(history->reader), "out of memory");
    if (placed == BLOCKED)
      parking_park(parking, history->merge, step, history->steps_placed);
    if (more == MERGE_ERROR)
      return -1;
  }
}

static uint64_t calls_in_flight(const struct trace_summary *summary) {
  json_t *footer = json_loads(summary->footer_json, 0, NULL);
  json_int_t calls = json_integer_value(json_object_get(footer, "in_flight"));
  json_decref(footer);
  return calls > 0 ? (uint64_t)calls : 0;
}

static uint64_t horizon_of(struct trace_reader *reader, const struct trace_info *info, double horizon_ns) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  bool ordered = strcmp(info->order, "tags") == 0 || strcmp(info->order, "every") == 0;
  bool incomplete = summary->dropped || summary->truncated || info->lacks_start || calls_in_flight(summary);
  if (horizon_ns < 0) {
    if (strcmp(info->order, "file") == 0 || (ordered && incomplete))
      return 0;
    if (summary->clock_hz <= 0)
      return strcmp(info->clock_kind, "ordinal") == 0 ? 0 : HISTORY_DEFAULT_HORIZON_STAMPS;
    horizon_ns = HISTORY_DEFAULT_HORIZON_NS;
  }
  double stamps = summary->clock_hz > 0 ? horizon_ns * summary->clock_hz / 1e9 : horizon_ns;
  return stamps >= 0x1p63 ? UINT64_MAX / 2 : (uint64_t)stamps;
}

static void history_free(struct history *history) {
  merge_close(history->merge);
  address_map_free(&history->map);
  slots_free(&history->slots);
  free(history->parking.threads);
  ranges_free(history->ranges);
  free(history->limbo);
  free(history->recent);
}

static int history_init(struct history *history, const struct trace_info *info) {
  uint32_t threads = trace_reader_summary(history->reader)->threads;
  history->horizon = horizon_of(history->reader, info, history->options->horizon_ns);
  uint64_t os_page_bytes = history->options->os_page_bytes;
  history->live = (struct live_totals){.witness = history->witness,
                                       .os_page_bytes = os_page_bytes ? os_page_bytes : info->os_page_bytes};
  history->limbo = malloc((threads + 1) * sizeof *history->limbo);
  history->recent = calloc(1 << RECENT_BITS, sizeof *history->recent);
  if (history->witness->ranges_checked)
    history->ranges = ranges_new();
  if (!history->limbo || !history->recent || (history->witness->ranges_checked && !history->ranges) ||
      !address_map_init(&history->map) || !slots_init(&history->slots, threads) ||
      !parking_init(&history->parking, threads))
    return error_set(history->error, trace_reader_path(history->reader), "out of memory");
  for (uint32_t i = 0; i < threads; i++)
    history->limbo[i] = SLOTS_NONE;
  history->lookups = (struct merge_lookups){&history->map, history->consumer ? &history->slots : NULL};
  return merge_open(&history->merge, history->reader, MERGE_ALL_THREADS, &history->lookups, history->error);
}

static int touched_at_end(void *context, uint64_t address, struct touched touched) {
  struct history *history = context;
  const struct address_entry *entry = address ? address_map_find(&history->map, address) : NULL;
  if (entry && entry->address)
    history->consumer->touched_at_end(history->consumer->context, entry->slot, touched);
  return 0;
}

/* Bytes of large objects of which it is not known how much is resident. */
static uint64_t untold_bytes(const struct history *history, const struct trace_info *info, const char *footer_json) {
  json_t *footer = json_loads(footer_json, 0, NULL);
  const char *end = json_string_value(json_object_get(footer, "end"));
  bool killed = end && strcmp(end, "killed") == 0 && json_is_true(json_object_get(info->json, "touched_parts"));
  uint64_t room = killed ? address_map_room(&history->map) : 0, bytes = 0;
  for (uint64_t i = 0; i < room; i++) {
    const struct address_entry *entry = &history->map.entries[i];
    uint64_t size_bytes = entry->address ? object_bytes(history, entry->slot) : 0;
    bytes += size_bytes >= TOUCHED_MIN_BYTES ? size_bytes : 0;
  }
  json_decref(footer);
  return bytes;
}

int history_run(struct trace_reader *reader, const struct history_options *options,
                const struct history_consumer *consumer, struct witness *witness, struct error *error) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  struct trace_info info;
  trace_info_read(&info, summary->info_json);
  *witness = (struct witness){.threads = summary->threads,
                              .dropped = summary->dropped,
                              .in_flight = calls_in_flight(summary),
                              .truncated = summary->truncated,
                              .lacks_start = info.lacks_start,
                              .lacks_in_flight = info.lacks_in_flight,
                              .lacks_calls = info.lacks_calls,
                              .ranges_checked = options->check_ranges && !info.lacks_addresses,
                              .ranges_ordered = strcmp(info.order, "tags") != 0};
  struct history history = {.reader = reader,
                            .error = error,
                            .options = options,
                            .consumer = consumer,
                            .witness = witness,
                            .set_before = info.set_before};
  int result = history_init(&history, &info);
  if (result == 0)
    result = place_set_before(&history);
  if (result == 0)
    result = run(&history);
  if (result == 0 && consumer && consumer->touched_at_end)
    result = trace_reader_touched(reader, touched_at_end, &history, error);
  witness->live_at_end = history.live.state.live_objects;
  witness->live_bytes_at_end = history.live.state.live_bytes;
  witness->untold_bytes_at_end = result == 0 ? untold_bytes(&history, &info, summary->footer_json) : 0;
  history_free(&history);
  trace_info_free(&info);
  return result;
}
