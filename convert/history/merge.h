/* SPDX-License-Identifier: MIT */
/* Merges a trace's threads into one sequence of steps by stamp (FORMAT.md section 1, order), one step at a time, and
   lets its user take a thread out for a while and put it back (convert/history/history.h uses this to repair
   inversions).

   Invariants: steps of a thread come in file order; among the threads that are in, the lowest stamp comes first, among
   equal ones the lowest thread. Memory is one open block per thread that has begun and not ended. It is a tournament
   tree of winners, not of losers: a loser tree can only replay the leaf that won last, and threads that come back are
   other leaves. Not thread-safe. */
#pragma once

#include "convert/history/read_ahead.h"
#include "core/base/address_map.h"
#include "core/base/assert.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/slots.h"

struct merge;

struct merge_step {
  const struct trace_event *event; /* valid until the thread is advanced */
  uint64_t stamp;
  uint32_t thread;
  uint8_t traits; /* the event's, enum event_trait */
  bool acquires;  /* this step hands out the object: an event's acquire step, or the only step of an acquiring event */
  bool is_last;   /* of its event */
};

/* Where the user will look up the addresses and then the objects of the coming steps. The merge prefetches these
   entries into the cache; it changes nothing. */
struct merge_lookups {
  const struct address_map *map;
  const struct slots *slots; /* NULL: objects are not looked up */
};

/* error and lookups (NULL: none) must outlive the merge. thread: the only one to read, or MERGE_ALL_THREADS. Returns 0
 * or -1. */
#define MERGE_ALL_THREADS UINT32_MAX
int merge_open(struct merge **out, struct trace_reader *reader, uint32_t thread, const struct merge_lookups *lookups,
               struct error *error);
void merge_close(struct merge *merge);

/* Internals, in the header for the inline functions that every event passes through. */

/* A key above all stamps: the thread is parked or has ended. A real stamp of that value counts as one less. */
#define MERGE_KEY_NONE UINT64_MAX

/* How far ahead in a thread's events the map's entries, and then their slots, are prefetched into the cache. */
enum { MERGE_PREFETCH_DISTANCE = 16, MERGE_PREFETCH_SLOT_DISTANCE = 8 };

struct merge_thread {
  struct merge_step step;  /* the next one; before the first event is loaded, its stamp is a lower bound */
  struct event_span ahead; /* the events after step.event that are in memory */
  bool loaded;
};

struct merge {
  struct read_ahead *ahead;
  const struct merge_lookups *lookups; /* NULL: none */
  struct merge_thread *threads;
  uint64_t *keys;    /* leaves: stamp of each thread, MERGE_KEY_NONE if it is out; leaf_count of them */
  uint32_t *winners; /* [1] is the tree's root, children of i are 2 i and 2 i + 1; leaves follow the inner nodes */
  uint32_t threads_count, leaf_count;
  uint32_t winner;     /* thread with the lowest key */
  uint32_t current;    /* thread of the step that merge_peek returned; until it passes, lower threads may come back */
  uint64_t challenger; /* lowest key among all threads but the winner */
};

/* The rare cases of the functions below. */
void merge_set_key(struct merge *merge, uint32_t thread, uint64_t key);
int merge_begin_threads(struct merge *merge); /* until the winner has its first event; returns as merge_peek */
int merge_advance_slowly(struct merge *merge);

static inline uint64_t merge_key_of(uint64_t stamp) {
  return stamp == MERGE_KEY_NONE ? MERGE_KEY_NONE - 1 : stamp;
}

/* Gives the thread its new key. Returns true if the thread is the winner before and after; only otherwise the tree is
   touched. */
static inline bool merge_rekey(struct merge *merge, uint32_t thread, uint64_t key) {
  if (__builtin_expect(key < merge->challenger && merge->winner == thread, 1)) {
    merge->keys[thread] = key;
    return true;
  }
  merge_set_key(merge, thread, key);
  return false;
}

static inline void merge_prefetch_entries(const struct address_map *map, const struct trace_event *event) {
  if (event->released)
    __builtin_prefetch(address_map_bucket(map, address_map_home(map, event->released)), 1);
  if (event->acquired)
    __builtin_prefetch(address_map_bucket(map, address_map_home(map, event->acquired)), 1);
}

static inline void merge_prefetch_slot(const struct merge_lookups *lookups, const struct trace_event *event) {
  if (!event->released)
    return;
  const struct address_entry *bucket =
      address_map_bucket(lookups->map, address_map_home(lookups->map, event->released));
  unsigned match = address_bucket_match(bucket, event->released);
  __builtin_prefetch(&lookups->slots->at[bucket[__builtin_ctz(match | 8)].slot], 1);
}

/* Makes the thread's next event in memory, of which there must be one, its next step. Returns as merge_rekey. */
static inline bool merge_take_event(struct merge *merge, uint32_t number) {
  struct merge_thread *thread = &merge->threads[number];
  const struct trace_event *event = thread->ahead.at++;
  if (merge->lookups && thread->ahead.end - event > MERGE_PREFETCH_DISTANCE) {
    merge_prefetch_entries(merge->lookups->map, event + MERGE_PREFETCH_DISTANCE);
    if (merge->lookups->slots)
      merge_prefetch_slot(merge->lookups, event + MERGE_PREFETCH_SLOT_DISTANCE);
  }
  struct merge_step *step = &thread->step;
  step->event = event;
  step->traits = trace_event_traits(event);
  step->is_last = (step->traits & EVENT_TWO_STEPS) != EVENT_TWO_STEPS;
  step->acquires = (step->traits & EVENT_TWO_STEPS) == EVENT_ACQUIRES;
  uint64_t stamp = step->traits & EVENT_TAKES ? event->release_stamp : event->acquire_stamp;
  HT_ASSERT(stamp >= step->stamp);
  step->stamp = stamp;
  return merge_rekey(merge, number, merge_key_of(stamp));
}

/* Gives the next step, without passing it; *step is valid until it is passed. Returns 1, 0 if every thread has ended or
   is parked, -1 on error. */
static inline int merge_peek(struct merge *merge, const struct merge_step **step) {
  uint32_t number = merge->winner;
  if (__builtin_expect(merge->keys[number] == MERGE_KEY_NONE || !merge->threads[number].loaded, 0)) {
    int got = merge_begin_threads(merge);
    if (got <= 0)
      return got;
    number = merge->winner;
  }
  merge->current = number;
  *step = &merge->threads[number].step;
  return 1;
}

/* Passes the step that merge_peek returned. Returns 1 if its thread has more, 0 if it has ended, -1 on error. */
enum merge_more { MERGE_ERROR = -1, MERGE_ENDED = 0, MERGE_MORE = 1, MERGE_SAME_THREAD = 2 };
static inline int merge_advance(struct merge *merge) {
  const struct merge_thread *thread = &merge->threads[merge->current];
  if (__builtin_expect(!thread->step.is_last || thread->ahead.at == thread->ahead.end, 0))
    return merge_advance_slowly(merge);
  return merge_take_event(merge, merge->current) ? MERGE_SAME_THREAD : MERGE_MORE;
}

/* Takes the thread of the step that merge_peek returned out of the merge, until merge_resume. */
void merge_park(struct merge *merge);
void merge_resume(struct merge *merge, uint32_t thread);
