/* SPDX-License-Identifier: MIT */
/* Checks of arguments and steps of calls that are the same in each of our allocators, inlined where time counts. */
#pragma once

#include "allocators/common/base/basics.h"
#include "allocators/common/entry.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* No object is larger than PTRDIFF_MAX: then errno is ENOMEM. */
static inline bool size_is_too_large(size_t object_bytes) {
  if (LIKELY(object_bytes <= PTRDIFF_MAX))
    return false;
  errno = ENOMEM;
  return true;
}

/* The size of an array; false: too large for an object, errno is ENOMEM. */
static inline bool array_bytes(size_t count, size_t element_bytes, size_t *object_bytes) {
  if (LIKELY(!__builtin_mul_overflow(count, element_bytes, object_bytes) && *object_bytes <= PTRDIFF_MAX))
    return true;
  errno = ENOMEM;
  return false;
}

/* realloc of no object, to size 0, or to more than there can be: does it, gives the result, and returns true. */
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

/* realloc where nothing else will do: a new object, the old one's bytes, and the old one freed. NULL: no memory, errno
   is ENOMEM, the old one stays. */
static inline void *realloc_by_copy(void *object, size_t usable_bytes, size_t object_bytes) {
  void *moved = allocator_malloc(object_bytes);
  if (!moved)
    return NULL;
  memcpy(moved, object, usable_bytes < object_bytes ? usable_bytes : object_bytes);
  allocator_free(object);
  return moved;
}
