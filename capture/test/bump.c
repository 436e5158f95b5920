/* SPDX-License-Identifier: MIT */
/* An allocator for the tests: hands out fresh addresses by one atomic addition and never reuses memory, so it may be
   called in a signal handler that interrupted it. Its calloc calls malloc by name, as in some real allocators. It has
   C23's sized frees, and counts them. */
#include "core/test/usual.h"

#define EXPORT __attribute__((visibility("default")))

/* noinline: clang would assume that only our malloc can be meant. */
EXPORT __attribute__((noinline)) void *malloc(size_t size);
EXPORT void free(void *object);
EXPORT void *calloc(size_t count, size_t size);
EXPORT void *realloc(void *object, size_t size);
EXPORT void free_sized(void *object, size_t size);
EXPORT void free_aligned_sized(void *object, size_t align, size_t size);
EXPORT size_t sized_frees(void);

enum { SPACE_BYTES = 1 << 30 };
static _Atomic(char *) space;
static _Atomic size_t used;

void *malloc(size_t size) {
  char *memory = atomic_load(&space);
  if (!memory) {
    memory = mmap(NULL, SPACE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *none = NULL;
    if (!atomic_compare_exchange_strong(&space, &none, memory))
      memory = none;
  }
  size_t bytes = 16 + ((size + 15) & ~(size_t)15), at = atomic_fetch_add(&used, bytes);
  if (bytes < size || at + bytes > SPACE_BYTES) {
    errno = ENOMEM;
    return NULL;
  }
  memcpy(memory + at, &size, sizeof size);
  return memory + at + 16;
}

void free(void *object) {
  (void)object;
}

void *calloc(size_t count, size_t size) {
  return malloc(count * size); /* fresh memory is zero */
}

void *realloc(void *object, size_t size) {
  void *moved = malloc(size);
  size_t old = 0;
  if (object)
    memcpy(&old, (char *)object - 16, sizeof old);
  if (moved && object)
    memcpy(moved, object, old < size ? old : size);
  return moved;
}

static _Atomic size_t frees;

void free_sized(void *object, size_t size) {
  (void)object;
  (void)size;
  atomic_fetch_add(&frees, 1);
}

void free_aligned_sized(void *object, size_t align, size_t size) {
  (void)object;
  (void)align;
  (void)size;
  atomic_fetch_add(&frees, 1);
}

size_t sized_frees(void) {
  return atomic_load(&frees);
}
