/* SPDX-License-Identifier: MIT */
/* Takes a chunk out of an arena: from its lists in turn, then from its top, then from the system. */
#pragma once

#include "allocators/reference/arena.h"

/* Takes a chunk of `bytes`, marked used, or returns NULL. bin: where to put objects that are cheap to take at the same
   time; or NULL. Needs the lock; errno is undefined afterwards. */
void *arena_take(struct arena *arena, size_t bytes, struct tcache_bin *bin);

/* Gives a chunk back to its arena: merges it with its free neighbours, and puts it into a bin or the top; and gives
   memory back to the system where that is due. All functions need the arena's lock. */

/* Coalesces and bins a used chunk that is in no list; returns the size of the free chunk or top of which it is now a
   part. Keeps errno. */
size_t arena_release(struct arena *arena, struct chunk *chunk);

/* Gives memory back if the top has become too large. Keeps errno. */
void arena_trim(struct arena *arena, size_t merged_bytes);

/* For a free chunk this large, it is worth emptying the fast bins and checking the top. */
enum { LARGE_FREE_BYTES = 65536 };

/* Gives memory back if that is due after a release that returned merged_bytes. Keeps errno. */
static inline void arena_trim_if_large(struct arena *arena, size_t merged_bytes) {
  if (UNLIKELY(merged_bytes >= LARGE_FREE_BYTES))
    arena_trim(arena, merged_bytes);
}

/* Empties the fast bins. */
void arena_consolidate(struct arena *arena);

/* The list of all arenas, and which of them the calling thread uses.

   A thread gets an arena with its first call that needs one: an arena that no thread uses, else a new one, else the one
   that the fewest threads share. Not its job: what is in an arena (arena.h). */

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

/* Around a fork: all locks, in a fixed order. In the child there are no other threads. */
void arenas_lock_all(void);
void arenas_unlock_all(bool in_child);
