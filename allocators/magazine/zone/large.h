/* SPDX-License-Identifier: MIT */
/* Large objects: each in its own run of zones, of which only the written OS pages cost memory. A run of one zone comes
   from the zone magazine; longer ones are mapped, and some are kept when they are freed. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Returns an object of at most PTRDIFF_MAX bytes at a multiple of alignment, a power of two. NULL: none, errno
   undefined. *zeroed: whether it is zero already. */
void *large_take(size_t object_bytes, size_t alignment, bool *zeroed);

/* Keeps errno. */
void large_release(struct zone *zone);

/* Resizes the object, maybe moving it; NULL: failed, and it is unchanged. Keeps errno. */
void *large_resize(struct zone *zone, size_t object_bytes);

/* Returns the number of large objects, and their bytes. */
void large_count(size_t *count, size_t *bytes);
