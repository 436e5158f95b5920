/* Merges a trace's threads into one sequence of steps by stamp (FORMAT.md section 1, order), one step at a time, and
   lets its user take a thread out for a while and put it back (convert/history/history.h repairs inversions that way).

   Not its job: whether the order is legal.
   Invariants: steps of a thread come in file order; among the threads that are in, the lowest stamp comes first, among
   equal ones the lowest thread. Memory is one open block per thread that has begun and not ended. A tournament tree of
   winners, not of losers: a loser tree can only replay the leaf that won last, and threads that come back are other
   leaves. Not thread-safe. */
#ifndef CONVERT_HISTORY_MERGE_H
#define CONVERT_HISTORY_MERGE_H

#include "core/base/address_map.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/slots.h"

struct merge;

struct merge_step {
  const struct trace_event *event; /* valid until the thread is advanced */
  uint64_t stamp;
  uint32_t thread;
  uint8_t traits; /* the event's, enum call_trait */
  bool acquires;  /* this step hands out the object: an event's acquire step, or the only step of an acquiring event */
};

static inline bool merge_step_is_last(const struct merge_step *step) {
  return step->acquires || (step->traits & EVENT_TWO_STEPS) != EVENT_TWO_STEPS;
}

/* Where the user will look up the addresses and then the objects of the steps to come. The merge brings what they need
   into the cache in time; it changes nothing. */
struct merge_lookups {
  const struct address_map *map;
  const struct slots *slots;
};

/* error and lookups (NULL: none) must outlive the merge. thread: the only one to read, or MERGE_ALL_THREADS. Returns 0
 * or -1. */
#define MERGE_ALL_THREADS UINT32_MAX
int merge_open(struct merge **out, struct trace_reader *reader, uint32_t thread, const struct merge_lookups *lookups,
               struct error *error);
void merge_close(struct merge *merge);

/* The next step, without passing it; *step is valid until it is passed. 1, 0 if every thread has ended or is parked, -1
   on error. */
int merge_peek(struct merge *merge, const struct merge_step **step);

/* Passes the step that merge_peek gave. 1 if its thread has more, 0 if it has ended, -1 on error. */
int merge_advance(struct merge *merge);

/* Takes the thread of the step that merge_peek gave out of the merge, until merge_resume. */
void merge_park(struct merge *merge);
void merge_resume(struct merge *merge, uint32_t thread);

#endif
