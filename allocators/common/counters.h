/* SPDX-License-Identifier: MIT */
/* Counts of what the allocator does, per thread, summed by heaptape_allocator_stats().

   Off unless the tunable stats is set: while off, a count costs one branch that is always predicted, and the inlined
   paths of malloc and free do not have even that. A thread's counts are added to a common sum when it ends. */
#pragma once

#include "allocators/common/base.h"
#include "allocators/common/tunables.h"

enum counter {
#define COUNTER(name, meaning) COUNT_##name,
#include ALLOCATOR_COUNTERS
#undef COUNTER
  COUNTERS
};

/* Adds to a count of this thread. */
void counters_add(enum counter counter, uint64_t amount);

#define COUNT_MANY(name, amount)                                                                                       \
  do {                                                                                                                 \
    if (UNLIKELY(tunables.stats))                                                                                      \
      counters_add(COUNT_##name, amount);                                                                              \
  } while (0)
#define COUNT(name) COUNT_MANY(name, 1)

/* Adds this thread's counts to the common sum. Call when the thread ends. */
void counters_end_thread(void);

/* Returns all counts, of live and ended threads. */
void counters_sum(uint64_t sums[COUNTERS]);

/* Call in a forked child: other threads are gone, and so is the holder of the lock. */
void counters_after_fork(void);
