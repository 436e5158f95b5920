/* SPDX-License-Identifier: MIT */
/* Objects with a mapping of their own: large requests that fit nowhere in their arena. No lock is needed.

   Freeing one that is larger than mmap_threshold raises the threshold to its size, up to 32 MiB, and trim_threshold to
   twice that: programs that free large objects soon ask for such again, and mapping them costs a page fault for each OS
   page. Not where one of the two thresholds was set. */
#pragma once

#include "allocators/reference/base/chunk.h"

/* Gives zeroed memory for an object at a multiple of alignment (a power of two); NULL: none, errno undefined. */
void *mapped_take(size_t object_bytes, size_t alignment);

void mapped_release(struct chunk *chunk);

/* Same object, other size, maybe elsewhere; NULL: as it was. */
void *mapped_resize(struct chunk *chunk, size_t object_bytes);

/* How many there are, and their bytes: for statistics, not exact while other threads run. */
void mapped_count(size_t *count, size_t *bytes);
