/* SPDX-License-Identifier: MIT */
/* What each of our allocators reports beyond the malloc API: counts of its actions, and all blocks of its heap.

   All export the same names, found by dlsym or a weak reference in a process into which one of them is preloaded. The
   functions may be called from any thread at any time, but not from a signal handler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ALLOCATOR_PUBLIC __attribute__((visibility("default")))

/* One counter; names and meanings are in the allocator's counters.def. */
struct allocator_stat {
  const char *name;
  uint64_t value;
};

/* Fills in at most limit counters, summed over all live and ended threads since the start or the last fork of this
   process's ancestors. Returns the number of counters; 0: the tunable stats is off. */
ALLOCATOR_PUBLIC size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit);

/* Calls visit for each block of the heap: heap by heap, in order of address within a heap, under locks of the
   allocator, so visit must not call the malloc API. Blocks do not overlap, and no byte of an object is in another
   object's block. Objects with their own mapping may be left out. State 0: used; other states are the allocator's own.
   States of objects in a thread's cache are exact for other threads only while that thread doesn't allocate. */
ALLOCATOR_PUBLIC void
heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context), void *context);

/* Returns the name of a state: "used", ... NULL: neither this state nor a higher one exists. */
ALLOCATOR_PUBLIC const char *heaptape_heap_walk_state(unsigned state);
