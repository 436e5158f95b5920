/* SPDX-License-Identifier: MIT */
/* Calls that add a check to another one: frees with the object's size, and realloc of an array. */
#include "allocators/common/base/fault.h"
#include "allocators/common/calls/arguments.h"

void allocator_free_sized(void *object, size_t object_bytes) {
  if (object && UNLIKELY(is_aligned(object) && object_bytes > allocator_malloc_usable_size(object)))
    fault("free_sized", "the object is smaller than the given size", object);
  allocator_free(object);
}

void allocator_free_aligned_sized(void *object, size_t alignment, size_t object_bytes) {
  if (object && UNLIKELY((uintptr_t)object & (alignment - 1)))
    fault("free_aligned_sized", "the object does not have the given alignment", object);
  allocator_free_sized(object, object_bytes);
}

void *allocator_reallocarray(void *object, size_t count, size_t element_bytes) {
  size_t object_bytes;
  if (UNLIKELY(__builtin_mul_overflow(count, element_bytes, &object_bytes))) {
    errno = ENOMEM;
    return NULL;
  }
  return allocator_realloc(object, object_bytes);
}

PUBLIC_NAME(void, free_sized, (void *object, size_t object_bytes), allocator_free_sized);
PUBLIC_NAME(void, free_aligned_sized, (void *object, size_t alignment, size_t object_bytes),
            allocator_free_aligned_sized);
PUBLIC_NAME(void *, reallocarray, (void *object, size_t count, size_t element_bytes), allocator_reallocarray);
