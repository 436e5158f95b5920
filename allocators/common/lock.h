/* SPDX-License-Identifier: MIT */
/* A counted lock: one word, a futex when contended, no cost in a process of one thread; and a sum of the same kind.

   Not recursive. A holder may be interrupted by a signal; a handler that calls malloc then waits forever, as POSIX
   allows (malloc is not async-signal-safe). Sleeping is interrupted and resumed by signals without effect. */
#pragma once

#include "allocators/common/base.h"
#include "allocators/common/counters.h"

#include <sys/single_threaded.h>

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
