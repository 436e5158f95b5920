/* SPDX-License-Identifier: MIT */
/* Objects with their own mapping: large requests that fit nowhere in their arena. No lock is needed.

   Freeing one that is larger than mmap_threshold raises the threshold to its size, up to 32 MiB, and trim_threshold to
   twice that: programs that free large objects soon request such objects again, and mapping them costs a page fault for
   each OS page. Not if one of the two thresholds was set. */
#pragma once

#include "allocators/reference/base/chunk.h"

/* Returns zeroed memory for an object at a multiple of alignment (a power of two); NULL: none, errno undefined. */
void *mapped_take(size_t object_bytes, size_t alignment);

void mapped_release(struct chunk *chunk);

/* Resizes the object, maybe moving it; NULL: failed, and it is unchanged. */
void *mapped_resize(struct chunk *chunk, size_t object_bytes);

/* Returns the number of mapped objects, and their bytes: for statistics, not exact while other threads run. */
void mapped_count(size_t *count, size_t *bytes);
