/* The lock of an arena: one word, a futex when contended, nothing at all in a process of one thread.

   Not recursive. A holder may be interrupted by a signal; a handler that calls malloc then waits for ever, as POSIX
   allows (malloc is not async-signal-safe). Sleeping is interrupted and resumed by signals without effect. */
#ifndef ALLOCATORS_REFERENCE_LOCK_H
#define ALLOCATORS_REFERENCE_LOCK_H

#include "allocators/reference/counters.h"
#include <stdatomic.h>
#include <sys/single_threaded.h>

enum { LOCK_FREE, LOCK_TAKEN, LOCK_AWAITED };

struct lock {
  _Atomic uint32_t state;
};

/* Waits until the lock is free, and takes it. Leaves errno as it is. */
void lock_wait(struct lock *lock);

/* Wakes one waiter. Leaves errno as it is. */
void lock_wake(struct lock *lock);

/* May another thread run? libc's flag: true from before the first pthread_create returns. */
static inline bool threads_may_run(void) {
  return !(tunables.single_thread && __libc_single_threaded);
}

static inline bool lock_try_uncounted(struct lock *lock) {
  uint32_t unlocked = LOCK_FREE;
  return atomic_compare_exchange_strong_explicit(&lock->state, &unlocked, LOCK_TAKEN, memory_order_acquire,
                                                 memory_order_relaxed);
}

static inline void lock_take_uncounted(struct lock *lock) {
  if (!lock_try_uncounted(lock))
    lock_wait(lock);
}

static inline void lock_drop_uncounted(struct lock *lock) {
  if (UNLIKELY(atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) == LOCK_AWAITED))
    lock_wake(lock);
}

/* Takes the lock if it is free. */
static inline bool lock_try(struct lock *lock) {
  if (!threads_may_run())
    return true;
  COUNT(locks);
  COUNT(atomics);
  return lock_try_uncounted(lock);
}

static inline void lock_take(struct lock *lock) {
  if (lock_try(lock))
    return;
  COUNT(locks_contended);
  COUNT(atomics);
  lock_wait(lock);
}

/* A lock that is free although it is being dropped was taken while there was one thread. */
static inline void lock_drop(struct lock *lock) {
  if (atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE)
    return;
  COUNT(atomics);
  lock_drop_uncounted(lock);
}

/* Forgets holder and waiters: in a forked child. */
static inline void lock_reset(struct lock *lock) {
  atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_relaxed);
}

#endif
