/* Counts of what the allocator does, per thread, summed by reference_stats().

   Off unless the tunable stats is set: then a count costs one branch that is always predicted, and the inlined paths of
   malloc and free don't even have that one (tcache.h). A thread's counts are added to a common sum when it ends. */
#ifndef ALLOCATORS_REFERENCE_BASE_COUNTERS_H
#define ALLOCATORS_REFERENCE_BASE_COUNTERS_H

#include "allocators/reference/base/chunk.h"
#include "allocators/reference/base/tunables.h"

enum counter {
#define COUNTER(name, meaning) COUNT_##name,
#include "allocators/reference/base/counters.def"
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

/* Adds this thread's counts to the common sum: when it ends. */
void counters_end_thread(void);

/* All counts, of the threads that are and that were. */
void counters_sum(uint64_t sums[COUNTERS]);

/* In a forked child: the other threads are gone, and so is whoever held the lock. */
void counters_after_fork(void);

#endif
