/* SPDX-License-Identifier: MIT */
/* A library that has only reallocarray, which calls realloc by name, and aligned_alloc, which calls memalign. */
#include "core/test/usual.h"

__attribute__((visibility("default"))) void *reallocarray(void *object, size_t count, size_t size);
void *realloc(void *object, size_t size);
__attribute__((visibility("default"))) void *aligned_alloc(size_t align, size_t size);
void *memalign(size_t align, size_t size);

void *reallocarray(void *object, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void *moved = realloc(object, bytes);
  if (!moved) /* so that the call above does not become a jump */
    errno = ENOMEM;
  return moved;
}

void *aligned_alloc(size_t align, size_t size) {
  void *object = memalign(align, size);
  if (!object)
    errno = ENOMEM;
  return object;
}
