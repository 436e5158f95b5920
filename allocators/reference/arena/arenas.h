/* SPDX-License-Identifier: MIT */
/* The list of all arenas, and which of them the calling thread uses.

   A thread gets an arena with its first call that needs one: one that no thread uses, else a new one, else the one that
   the fewest threads share. Not its job: what is in an arena (arena.h). */
#pragma once

#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/thread.h"

/* The calling thread's arena, locked; attaches the thread first if it has none. After repeated contention the thread
   moves to another one. */
static inline struct arena *arena_lock_mine(void);
struct arena *arena_lock_mine_slow(void);

/* Another arena than this, locked, that may have memory when this one has none; NULL: there is no other. */
struct arena *arena_lock_other(struct arena *exhausted);

static inline struct arena *arena_lock_mine(void) {
  struct arena *arena = thread.arena;
  if (UNLIKELY(!arena || !lock_try(&arena->lock)))
    return arena_lock_mine_slow();
  thread.contended = 0;
  return arena;
}

/* The calling thread ends. */
void arena_detach(void);

/* Around a fork: all locks, in one order; the child forgets them, for its one thread holds them. */
void arenas_lock_all(void);
void arenas_unlock_all(void);
void arenas_after_fork(void);
