/* SPDX-License-Identifier: MIT */
/* What each of our allocators gives the common code: all that differs between them beside the calls of entry.h. */
#pragma once

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>

enum { HEAP_STATES_MAX = 16 };

/* The heap walk, summed up. */
struct heap_sums {
  size_t count[HEAP_STATES_MAX], bytes[HEAP_STATES_MAX];
};

/* Makes the heap usable; the tunables are read. Called once, by the process's first call, which is made by the dynamic
   linker or a constructor, before a second thread can exist. Must not allocate through the API. */
void allocator_start(void);

/* Around a fork: takes all locks, in one order; drops them; the child forgets them, for its one thread holds them. */
void allocator_before_fork(void);
void allocator_after_fork_in_parent(void);
void allocator_after_fork_in_child(void);

/* An object at a multiple of alignment, a power of two above 16. object_bytes may be anything. NULL: no memory, errno
   undefined. */
void *allocator_take_aligned(size_t alignment, size_t object_bytes);

/* Fills in mallinfo2's figures: arena, the bytes that the heap has of the system, usmblks the most that it had, hblks
   and hblkhd the objects with a mapping of their own; and what follows from the sums of the walk. */
void allocator_summarize(const struct heap_sums *sums, struct mallinfo2 *info);

/* Prints what malloc_info says of the parts of the heap, an element a line; maybe nothing. */
void allocator_print_parts(FILE *stream);
