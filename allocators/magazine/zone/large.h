/* SPDX-License-Identifier: MIT */
/* Large objects: each in a run of zones of its own, of which only the OS pages that are written cost memory. A run of
   one zone comes from the zone magazine; longer ones are mapped, and some are kept when they are freed. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* An object of at most PTRDIFF_MAX bytes at a multiple of alignment, a power of two. NULL: none, errno undefined.
 *zeroed: it need not be cleared. */
void *large_take(size_t object_bytes, size_t alignment, bool *zeroed);

/* Keeps errno. */
void large_release(struct zone *zone);

/* The same object, other size, maybe elsewhere; NULL: as it was. Keeps errno. */
void *large_resize(struct zone *zone, size_t object_bytes);

/* How many there are, and their bytes. */
void large_count(size_t *count, size_t *bytes);
