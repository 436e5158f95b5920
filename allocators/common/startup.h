/* SPDX-License-Identifier: MIT */
/* The first call of a process, forks, and the end of a thread; and what each of our allocators provides for them and to
   the other common code: all that differs between them, besides entry.h. */
#pragma once

#include "allocators/common/base.h"

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Everything that must happen before the first object is handed out. */

extern bool started HIDDEN;

/* The size of an OS page. */
extern size_t os_page_bytes HIDDEN;

/* Reads the tunables, starts the allocator (allocator_start), registers the fork handlers. The dynamic linker or a
   constructor makes the first call of a process, before a second thread can exist; so no lock is needed. Allocates
   nothing. */
void startup_first(void);

static inline void startup(void) {
  if (UNLIKELY(!started))
    startup_first();
}

/* What each of our allocators provides to the common code: all that differs between them, besides entry.h. */

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

/* The end of a thread: when the allocator takes back what the thread has. */

/* on_end runs in each thread that called thread_end_watch, as the thread ends. Destructors of other libraries may run
   after it, and call malloc and free. Call this before anything else here. */
void thread_end_setup(void (*on_end)(void *unused));

/* Registers the calling thread's end. May call calloc, so the thread's state must be complete already. */
void thread_end_watch(void);
