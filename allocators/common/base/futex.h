/* SPDX-License-Identifier: MIT */
/* The word of a lock: a futex when contended. Preserves errno.

   Not its job: counting its cost, and skipping the lock where there is only one thread (lock.h). Not recursive. */
#pragma once

#include "allocators/common/base/basics.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCK_FREE, LOCK_TAKEN, LOCK_AWAITED };

struct lock {
  _Atomic uint32_t state;
};

/* Waits until the lock is free, and takes it. */
void lock_wait(struct lock *lock);

/* Wakes one waiter. */
void lock_wake(struct lock *lock);

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

/* Resets the lock in a forked child: no holder, no waiters. */
static inline void lock_reset(struct lock *lock) {
  atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_relaxed);
}
