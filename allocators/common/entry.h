/* SPDX-License-Identifier: MIT */
/* The malloc API under unique names. PUBLIC_NAME gives each function its usual name, too, unless ALLOCATOR_PREFIXED is
   defined: then a program can use both this allocator and another (tests, sanitizers).

   Semantics are those of POSIX.1-2024 and C23: objects are aligned to 16 bytes; a size of 0 returns a unique pointer;
   sizes above PTRDIFF_MAX and products that overflow fail with ENOMEM; realloc to size 0 frees and returns NULL, as
   glibc does; free preserves errno. All may be called from any thread, none from a signal handler. */
#pragma once

#include "allocators/common/base.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef ALLOCATOR_PREFIXED
#define PUBLIC_NAME(result, name, parameters, target) _Static_assert(1, "")
#else
#define PUBLIC_NAME(result, name, parameters, target)                                                                  \
  result name parameters __attribute__((alias(#target), visibility("default")))
#endif

/* The allocator's name, and the environment variable of its tunables. */
extern const char allocator_name[], allocator_variable[];

void *allocator_malloc(size_t object_bytes);
void *allocator_calloc(size_t count, size_t element_bytes);
void *allocator_realloc(void *object, size_t object_bytes);
void *allocator_reallocarray(void *object, size_t count, size_t element_bytes);
void allocator_free(void *object);
void allocator_free_sized(void *object, size_t object_bytes);
void allocator_free_aligned_sized(void *object, size_t alignment, size_t object_bytes);
int allocator_posix_memalign(void **object, size_t alignment, size_t object_bytes);
void *allocator_aligned_alloc(size_t alignment, size_t object_bytes);
void *allocator_memalign(size_t alignment, size_t object_bytes);
void *allocator_valloc(size_t object_bytes);
void *allocator_pvalloc(size_t object_bytes);
size_t allocator_malloc_usable_size(void *object);
int allocator_malloc_trim(size_t keep_bytes);
int allocator_mallopt(int option, int value);
struct mallinfo2 allocator_mallinfo2(void);
int allocator_malloc_info(int options, FILE *stream);

/* Checks of arguments and steps of calls that all our allocators share, inlined where time matters. */

/* Returns whether the size exceeds PTRDIFF_MAX, the largest object: then errno is ENOMEM. */
static inline bool size_is_too_large(size_t object_bytes) {
  if (LIKELY(object_bytes <= PTRDIFF_MAX))
    return false;
  errno = ENOMEM;
  return true;
}

/* Computes the size of an array; false: too large for an object, errno is ENOMEM. */
static inline bool array_bytes(size_t count, size_t element_bytes, size_t *object_bytes) {
  if (LIKELY(!__builtin_mul_overflow(count, element_bytes, object_bytes) && *object_bytes <= PTRDIFF_MAX))
    return true;
  errno = ENOMEM;
  return false;
}

/* realloc of NULL, to size 0, or to more than an object can have: does it, stores the result, and returns true. */
static inline bool realloc_is_special(void *object, size_t object_bytes, void **result) {
  *result = NULL;
  if (!object) {
    *result = allocator_malloc(object_bytes);
    return true;
  }
  if (object_bytes == 0) {
    allocator_free(object);
    return true;
  }
  return size_is_too_large(object_bytes);
}

/* realloc where nothing else works: makes a new object with the old one's bytes, and frees the old one. NULL: no
   memory, errno is ENOMEM, the old one stays. */
static inline void *realloc_by_copy(void *object, size_t usable_bytes, size_t object_bytes) {
  void *moved = allocator_malloc(object_bytes);
  if (!moved)
    return NULL;
  memcpy(moved, object, usable_bytes < object_bytes ? usable_bytes : object_bytes);
  allocator_free(object);
  return moved;
}

/* The first call of a process, forks, and the end of a thread; and what each of our allocators provides for them and to
   the other common code: all that differs between them, besides entry.h. */

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

/* Around a fork: takes all locks, in a fixed order; drops them, in the parent and in the child, whose one thread holds
   them; in the child also forgets what the other threads had. */
void allocator_before_fork(void);
void allocator_after_fork(bool in_child);

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
