/* SPDX-License-Identifier: MIT */
/* Counts of what the allocator does, per thread, summed by heaptape_allocator_stats().

   Off unless the tunable stats is set: while off, a count costs one branch that is always predicted, and the inlined
   paths of malloc and free do not have even that. A thread's counts are added to a common sum when it ends. */
#pragma once

#include "allocators/common/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/single_threaded.h>

/* The switches: set by NAME_TUNABLES=name=value:name=value, NAME the allocator's, read once at the first call.

   Each allocator has its own table, tunables.def, in ALLOCATOR_TUNABLES:
     TUNABLE(name, standard value, lowest, highest, meaning)
     CHOICE(name, standard value, words, meaning)   words separated by spaces; the value is the word's number

   Constant afterwards, except where the allocator itself changes them. A name that is not in the table, or a value
   out of its range, is reported on stderr and ignored. Ignored altogether in a set-user-ID program. */

struct tunables {
#define TUNABLE(name, standard, lowest, highest, meaning) size_t name;
#define CHOICE(name, standard, words, meaning) size_t name;
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};

/* Whether each tunable was set. */
struct tunables_set {
#define TUNABLE(name, standard, lowest, highest, meaning) bool name;
#define CHOICE(name, standard, words, meaning) bool name;
#include ALLOCATOR_TUNABLES
#undef TUNABLE
#undef CHOICE
};

extern struct tunables tunables HIDDEN;
extern struct tunables_set tunables_set HIDDEN;

/* Reads a tunable that another thread may be changing. */
static inline size_t tunable_now(const size_t *tunable) {
  return __atomic_load_n(tunable, __ATOMIC_RELAXED);
}

/* Reads the environment. Called once, before any other thread can run here. Allocates nothing. */
void tunables_read(void);

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

/* Call in a forked child: other threads are gone, and so is the holder of the lock. */
void counters_after_fork(void);

/* A counted lock: one word, a futex when contended, no cost in a process of one thread; and a sum of the same kind.

   Not recursive. A holder may be interrupted by a signal; a handler that calls malloc then waits forever, as POSIX
   allows (malloc is not async-signal-safe). Sleeping is interrupted and resumed by signals without effect. */

/* glibc 2.32; before it tunables.single_thread is 0. */
#pragma weak __libc_single_threaded

/* Returns whether another thread may run. libc's flag: true from before the first pthread_create returns. */
static inline bool threads_may_run(void) {
  return !(tunables.single_thread && __libc_single_threaded);
}

/* Takes the lock if it is free. */
static inline bool lock_try(struct lock *lock) {
  if (!threads_may_run())
    return true;
  COUNT(locks);
  COUNT(atomics);
  return lock_try_uncounted(lock);
}

/* Takes a lock that lock_try found taken. */
static inline void lock_await(struct lock *lock) {
  COUNT(locks_contended);
  COUNT(atomics);
  lock_wait(lock);
}

static inline void lock_take(struct lock *lock) {
  if (!lock_try(lock))
    lock_await(lock);
}

/* Drops the lock. If it is free already, it was taken while there was only one thread. */
static inline void lock_drop(struct lock *lock) {
  if (atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE)
    return;
  COUNT(atomics);
  lock_drop_uncounted(lock);
}

/* Adds to a counted sum: no atomic operation in a process of one thread. */
static inline void sum_add(_Atomic size_t *sum, size_t amount) {
  if (!threads_may_run()) {
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + amount, memory_order_relaxed);
    return;
  }
  COUNT(atomics);
  atomic_fetch_add_explicit(sum, amount, memory_order_relaxed);
}
