/* SPDX-License-Identifier: MIT */
/* What each of our allocators reports beyond the malloc API: counts of what it did, and all that its heap is divided
   into.

   Exported under the same names by each, and found by dlsym or a weak reference in a process that one is preloaded to.
   They may be called from any thread at any time, but not from a signal handler. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ALLOCATOR_PUBLIC __attribute__((visibility("default")))

/* One counter; names and meanings stand in the allocator's counters.def. */
struct allocator_stat {
  const char *name;
  uint64_t value;
};

/* Fills in at most limit counters, summed over all threads that there are or were since the start or the last fork of
   this process's ancestors. Returns how many there are; 0: the tunable stats is off. */
ALLOCATOR_PUBLIC size_t heaptape_allocator_stats(struct allocator_stat *stats, size_t limit);

/* Calls visit for each block of the heap: heap by heap, in order of address within a heap, under locks of the
   allocator. So visit must not call the malloc API. Blocks do not overlap, and no byte of an object lies in another's
   block. Objects with a mapping of their own may be left out. State 0: used; what the others mean is the allocator's.
   States of objects in a thread's cache are exact for other threads only while they don't allocate. */
ALLOCATOR_PUBLIC void
heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context), void *context);

/* The name of a state: "used", ... NULL: there is no such state, nor one above it. */
ALLOCATOR_PUBLIC const char *heaptape_heap_walk_state(unsigned state);
