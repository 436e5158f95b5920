/* The malloc API under names that clash with nobody's. PUBLIC_NAME gives each its usual name too, unless
   REFERENCE_PREFIXED is defined: then a program can use both this allocator and another (tests, sanitizers).

   Semantics are those of POSIX.1-2024 and C23: objects are aligned to 16 bytes; a size of 0 gives a unique pointer;
   sizes above PTRDIFF_MAX and products that overflow fail with ENOMEM; realloc to size 0 frees and returns NULL, as
   glibc does; free leaves errno as it is. All may be called from any thread, none from a signal handler. */
#ifndef ALLOCATORS_REFERENCE_ENTRY_H
#define ALLOCATORS_REFERENCE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef REFERENCE_PREFIXED
#define PUBLIC_NAME(result, name, parameters, target) _Static_assert(1, "")
#else
#define PUBLIC_NAME(result, name, parameters, target)                                                                  \
  result name parameters __attribute__((alias(#target), visibility("default")))
#endif

void *reference_malloc(size_t object_bytes);
void *reference_calloc(size_t count, size_t element_bytes);
void *reference_realloc(void *object, size_t object_bytes);
void *reference_reallocarray(void *object, size_t count, size_t element_bytes);
void reference_free(void *object);
void reference_free_sized(void *object, size_t object_bytes);
void reference_free_aligned_sized(void *object, size_t alignment, size_t object_bytes);
int reference_posix_memalign(void **object, size_t alignment, size_t object_bytes);
void *reference_aligned_alloc(size_t alignment, size_t object_bytes);
void *reference_memalign(size_t alignment, size_t object_bytes);
void *reference_valloc(size_t object_bytes);
void *reference_pvalloc(size_t object_bytes);
size_t reference_malloc_usable_size(void *object);
int reference_malloc_trim(size_t keep_bytes);
int reference_mallopt(int option, int value);

#endif
