/* SPDX-License-Identifier: MIT */
/* What the allocators' code needs before there is a heap: branch hints and alignment, settings from the environment,
   the end of a corrupt program, words that no program's data has by chance, and the word of a lock.

   Nothing here allocates, and all of it works before libc is initialised. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Used by all of the allocator's code: branch hints, and the alignment of every object. */

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* On the declaration of a variable: it is of this library, so accessing it does not go through the GOT. */
#define HIDDEN __attribute__((visibility("hidden")))

enum { OBJECT_ALIGNMENT = 16 };

static inline bool is_aligned(const void *object) {
  return ((uintptr_t)object & (OBJECT_ALIGNMENT - 1)) == 0;
}

/* Rounds up to a multiple of a power of two. */
static inline size_t round_up(size_t value, size_t power) {
  return (value + power - 1) & ~(power - 1);
}

/* Settings from the environment, before libc may know it. Allocates nothing. */

/* Returns the value of a variable, valid forever; NULL: not set, or the program is set-user-ID. Call at the start only,
   before any other thread can run here. */
const char *environment_value(const char *name);

/* Stops a program whose heap is corrupt: one line on stderr, then abort().

   Takes no lock and allocates nothing, so it may be called with any lock held. */

/* Prints "NAME: WHERE: WHAT (ADDRESS)", NAME the allocator's. */
__attribute__((noreturn, cold)) void fault(const char *where, const char *what, const void *address);

/* Prints "NAME: TEXT: WORD" and returns: for settings that are ignored. word ends at a NUL or ':'. */
void complain(const char *text, const char *word);

/* Words that differ from process to process, and that a program's data does not contain by chance. */

/* Returns two odd words, which are therefore never a pointer. The same at each call. */
void secret_words(uintptr_t words[2]);

/* Processors on which this process may run. Not sysconf, which opens files and may allocate. */
unsigned processors(void);

/* The word of a lock: a futex when contended. Preserves errno.

   Not its job: counting its cost, and skipping the lock where there is only one thread (counters.h). Not recursive. */

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
