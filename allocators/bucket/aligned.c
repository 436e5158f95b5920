/* SPDX-License-Identifier: MIT */
/* Aligned objects: each is within a larger object from malloc, with its own header before it that points to the outer
   object, as in libmtmalloc. */
#include "allocators/bucket/base/block.h"
#include "allocators/common/entry.h"
#include "allocators/common/hooks.h"

void *allocator_take_aligned(size_t alignment, size_t object_bytes) {
  size_t padded;
  if (__builtin_add_overflow(object_bytes, alignment, &padded))
    return NULL;
  void *outer = allocator_malloc(padded);
  if (!outer || ((uintptr_t)outer & (alignment - 1)) == 0)
    return outer;
  /* Both addresses are multiples of 16, so there is room for a header between them. */
  struct block *inner = block_of((void *)round_up((uintptr_t)outer, alignment));
  block_mark_used(inner, outer, BLOCK_ALIGNED);
  return block_object(inner);
}
