/* SPDX-License-Identifier: MIT */
#include "allocators/reference/arenas.h"

#include "allocators/common/startup.h"
#include "allocators/reference/heap.h"

#include <sched.h>
#include <unistd.h>

enum {
  ARENAS_PER_PROCESSOR = 8,
  CONTENDED_LIMIT = 16, /* consecutive waits after which a thread searches for another arena */
};

static struct lock list_lock; /* for the list's end, and for making arenas */
static unsigned arena_count = 1;

/* Returns the number of processors on which this process may run. Not sysconf, which opens files and may allocate. */
static unsigned processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static unsigned arena_limit(void) {
  static unsigned limit;
  if (tunables.arenas)
    return (unsigned)tunables.arenas;
  if (limit == 0)
    limit = processors() * ARENAS_PER_PROCESSOR;
  return limit;
}

/* Returns the arena with the fewest threads; of several, the main one. */
static struct arena *least_used(void) {
  struct arena *best = &main_arena;
  for (struct arena *arena = arena_next(best); arena; arena = arena_next(arena))
    if (atomic_load_explicit(&arena->threads, memory_order_relaxed) <
        atomic_load_explicit(&best->threads, memory_order_relaxed))
      best = arena;
  return best;
}

static struct arena *append_new(void) {
  struct arena *arena = heap_new_arena(arena_count);
  if (!arena)
    return NULL;
  struct arena *last = &main_arena;
  while (arena_next(last))
    last = arena_next(last);
  atomic_store_explicit(&last->next, arena, memory_order_release);
  arena_count++;
  return arena;
}

static void attach(struct arena *arena) {
  COUNT(atomics);
  atomic_fetch_add_explicit(&arena->threads, 1, memory_order_relaxed);
  thread.arena = arena;
  thread.contended = 0;
}

/* Attaches to an arena that no thread uses, else to a new one, else to the one that the fewest threads share. */
static void attach_first_time(void) {
  if (thread.ended) { /* its last calls: not counted, as the count would not be taken back */
    thread.arena = &main_arena;
    return;
  }
  lock_take(&list_lock);
  struct arena *arena = least_used();
  if (atomic_load_explicit(&arena->threads, memory_order_relaxed) > 0 && arena_count < arena_limit()) {
    struct arena *made = append_new();
    arena = made ? made : arena;
  }
  attach(arena);
  lock_drop(&list_lock);
  thread_end_watch(); /* may call calloc: the thread has an arena then, and does not come here again */
}

void arena_detach(void) {
  if (!thread.arena)
    return;
  COUNT(atomics);
  atomic_fetch_sub_explicit(&thread.arena->threads, 1, memory_order_relaxed);
  thread.arena = NULL;
}

/* Moves the thread to an arena that has fewer threads than its own and whose lock is free right now. */
static struct arena *move_to_idle(struct arena *from) {
  thread.contended = 0;
  struct arena *to = least_used();
  if (atomic_load_explicit(&to->threads, memory_order_relaxed) + 1 >=
          atomic_load_explicit(&from->threads, memory_order_relaxed) ||
      !lock_try(&to->lock))
    return NULL;
  COUNT(arena_switches);
  arena_detach();
  attach(to);
  return to;
}

/* The thread has no arena yet, or its lock was just found taken. */
struct arena *arena_lock_mine_slow(void) {
  if (!thread.arena) {
    attach_first_time();
    lock_take(&thread.arena->lock);
    return thread.arena;
  }
  struct arena *arena = thread.arena;
  if (++thread.contended >= CONTENDED_LIMIT) {
    struct arena *idle = move_to_idle(arena);
    if (idle)
      return idle;
  }
  COUNT(locks_contended);
  COUNT(atomics);
  lock_wait(&arena->lock);
  return arena;
}

struct arena *arena_lock_other(struct arena *exhausted) {
  struct arena *other = exhausted == &main_arena ? arena_next(&main_arena) : &main_arena;
  if (other)
    lock_take(&other->lock);
  return other;
}

void arenas_lock_all(void) {
  lock_take(&list_lock);
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    lock_take(&arena->lock);
}

void arenas_unlock_all(void) {
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    lock_drop(&arena->lock);
  lock_drop(&list_lock);
}

void arenas_after_fork(void) {
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena)) {
    lock_reset(&arena->lock);
    atomic_store_explicit(&arena->threads, arena == thread.arena, memory_order_relaxed);
  }
  lock_reset(&list_lock);
}
