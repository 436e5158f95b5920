/* SPDX-License-Identifier: MIT */
/* What each of our allocators provides to the common code: all that differs between them, besides entry.h. */
#pragma once

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>

enum { HEAP_STATES_MAX = 16 };

/* The heap walk, summed up. */
struct heap_sums {
  size_t count[HEAP_STATES_MAX], bytes[HEAP_STATES_MAX];
};

/* Makes the heap usable; the tunables are read. Called once, by the process's first call, which the dynamic linker or a
   constructor makes, before a second thread can exist. Must not allocate through the API. */
void allocator_start(void);

/* Around a fork: takes all locks, in a fixed order; drops them; in the child, resets them, as its one thread holds
   them. */
void allocator_before_fork(void);
void allocator_after_fork_in_parent(void);
void allocator_after_fork_in_child(void);

/* Returns an object at a multiple of alignment, a power of two above 16. object_bytes: any value. NULL: no memory,
   errno undefined. */
void *allocator_take_aligned(size_t alignment, size_t object_bytes);

/* Fills in mallinfo2's figures: arena, the heap's bytes from the system; usmblks, their maximum; hblks and hblkhd, the
   objects with their own mapping; and the figures that follow from the sums of the walk. */
void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info);

/* Prints malloc_info's elements for the parts of the heap, one per line; maybe none. */
void allocator_print_parts(FILE *stream);
