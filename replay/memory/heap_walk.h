/* SPDX-License-Identifier: MIT */
/* The heap walk: an allocator's own description of its heap, where it offers one.

   If an allocator exports both functions, the memory pass's results have its states; any other is measured from outside
   as well as possible (fragmentation.h). Our reference allocator exports them. The contract:

     void heaptape_heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context),
                             void *context);
       calls visit once for each chunk that the allocator has divided its heap into. Chunks do not overlap.
       State 0: handed out to the program, or used by the allocator itself; any other state: free, in some kind of list.
       Memory in no chunk is the allocator's own (headers, tables; large objects with their own mapping may be left out,
       too). The walk may take locks, must not allocate, must give no memory back, and must leave the heap as it was. It
       is called between two ops, by a thread that has called malloc before, while no other thread runs.

     const char *heaptape_heap_walk_state(unsigned state);
       returns the state's name, made of the letters a to z, digits and _; NULL: neither this state nor a higher one
       exists. */
#pragma once

#include "replay/memory/memory_figures.h"

#include <stddef.h>

/* Copies the names of the states of this process's allocator, at most WALK_STATES. Returns their number; 0: no heap
   walk. */
unsigned heap_walk_states(char names[WALK_STATES][WALK_STATE_NAME_BYTES]);

/* Call only where there are states. visit gets states below WALK_STATES only: any higher state as the last one. */
void heap_walk(void (*visit)(const void *address, size_t bytes, unsigned state, void *context), void *context);
