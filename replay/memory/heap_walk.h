/* SPDX-License-Identifier: MIT */
/* The heap walk: an allocator's own account of its heap, where it offers one.

   An allocator that exports both of these has its states in the memory pass's results; one that does not is measured as
   well as can be from outside (fragmentation.h). Our reference allocator does. The contract:

     void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                             void *context);
       calls visit once for each chunk that the allocator has divided its heap into. Chunks do not overlap.
       State 0: given out to the program, or used by the allocator for itself; any other state: free, in one kind of
       list or another. What lies in no chunk is the allocator's own (headers, tables, large objects with a mapping of
       their own may be left out too). It may take locks, must not allocate, must give no memory back, and must leave
       the heap as it was. Called between two ops, by a thread that has called malloc before, while no other runs.

     const char *heaptape_heap_walk_state(unsigned state);
       the state's name, of the letters a to z, digits and _; NULL: there is no such state, nor one above it. */
#pragma once

#include "replay/state/memory_figures.h"

#include <stddef.h>

/* Copies the names of this process's allocator's states; at most WALK_STATES. Returns how many there are, 0: it offers
   no walk. */
unsigned heap_walk_states(char names[WALK_STATES][WALK_STATE_NAME_BYTES]);

/* Only where there are states. visit gets states below WALK_STATES only: others as the last. */
void heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context), void *context);
