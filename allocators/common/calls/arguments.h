/* SPDX-License-Identifier: MIT */
/* Checks of arguments and steps of calls that all our allocators share, inlined where time matters. */
#pragma once

#include "allocators/common/base/basics.h"
#include "allocators/common/entry.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

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
