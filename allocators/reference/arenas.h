/* SPDX-License-Identifier: MIT */
/* The list of all arenas, and which of them the calling thread uses.

   A thread gets an arena with its first call that needs one: an arena that no thread uses, else a new one, else the one
   that the fewest threads share. Not its job: what is in an arena (arena.h). */
#pragma once

#include "allocators/reference/arena.h"

/* Returns the calling thread's arena, locked; attaches the thread first if it has none. After repeated contention the
   thread moves to another arena. */
static inline struct arena *arena_lock_mine(void);
struct arena *arena_lock_mine_slow(void);

/* Returns another arena, locked, that may have memory when this one has none; NULL: there is no other. */
struct arena *arena_lock_other(struct arena *exhausted);

static inline struct arena *arena_lock_mine(void) {
  struct arena *arena = thread.arena;
  if (UNLIKELY(!arena || !lock_try(&arena->lock)))
    return arena_lock_mine_slow();
  thread.contended = 0;
  return arena;
}

/* Call as the calling thread ends. */
void arena_detach(void);

/* Around a fork: all locks, in a fixed order; the child resets them, as its one thread holds them. */
void arenas_lock_all(void);
void arenas_unlock_all(void);
void arenas_after_fork(void);
