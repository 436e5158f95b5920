/* SPDX-License-Identifier: MIT */
/* realloc: in place if the block is large enough, or if it is oversize and becomes so with the free block behind it;
   else by copying. */
#include "allocators/bucket/base/block.h"
#include "allocators/bucket/heap/cache.h"
#include "allocators/bucket/heap/oversize.h"
#include "allocators/common/calls/arguments.h"
#include "allocators/common/tunables.h"

/* Returns the usable bytes of a block that was checked. */
static size_t usable_bytes(struct block *block) {
  switch (block_kind(block)) {
  case BLOCK_OVERSIZE:
    return oversize_object_bytes(block_owner(block));
  case BLOCK_ALIGNED: {
    char *outer = block_owner(block);
    return usable_bytes(block_checked("realloc", outer)) - (size_t)((char *)block_object(block) - outer);
  }
  default:
    return cache_object_bytes(block_owner(block));
  }
}

/* The part of an oversize object that is no longer needed is given back, if another oversize object could use it. */
static bool fits_in_place(struct block *block, size_t object_bytes) {
  if (block_kind(block) == BLOCK_OVERSIZE)
    return object_bytes > tunables.max_cached && oversize_resize(block_owner(block), object_bytes);
  return object_bytes <= usable_bytes(block);
}

void *allocator_realloc(void *object, size_t object_bytes) {
  void *result;
  if (realloc_is_special(object, object_bytes, &result))
    return result;
  struct block *block = block_checked("realloc", object);
  if (block_kind(block) == BLOCK_CACHED)
    cache_check("realloc", block_owner(block));
  return fits_in_place(block, object_bytes) ? object : realloc_by_copy(object, usable_bytes(block), object_bytes);
}

size_t allocator_malloc_usable_size(void *object) {
  return object ? usable_bytes(block_checked("malloc_usable_size", object)) : 0;
}

PUBLIC_NAME(void *, realloc, (void *object, size_t object_bytes), allocator_realloc);
PUBLIC_NAME(size_t, malloc_usable_size, (void *object), allocator_malloc_usable_size);
