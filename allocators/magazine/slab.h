/* SPDX-License-Identifier: MIT */
/* Objects in zones: small ones in the slab of their size class, large ones in a run of zones each. Nothing here depends
   on magazines or threads. */
#pragma once

#include "allocators/magazine/zones.h"

/* Slabs: the zones of each size class, with one lock per class. */

struct slab;

/* Returns the slabs of a size class, locked. */
struct slab *slab_lock(unsigned number);
void slab_unlock(unsigned number);

/* Takes an object: one that was given back to the current zone, else a fresh one, else from another zone. NULL: no
   memory. Needs the lock; errno is undefined afterwards. */
struct freed *slab_take(struct slab *slab);

/* Takes an object back. A zone in which nothing is used goes to the zone magazine. Needs the lock, and keeps errno. */
void slab_give(struct slab *slab, struct freed *object);

/* The state of an object of a slab. */
enum slab_state { SLAB_USED, SLAB_MAGAZINE, SLAB_FREE, SLAB_FRESH };

/* Calls visit under the lock for each object, but only once for all fresh objects of a zone. */
void slab_walk(unsigned number, void (*visit)(const void *address, size_t bytes, enum slab_state state, void *context),
               void *context);

/* Large objects: each in its own run of zones, of which only the written OS pages cost memory. A run of one zone comes
   from the zone magazine; longer ones are mapped, and some are kept when they are freed. */

/* Returns an object of at most PTRDIFF_MAX bytes at a multiple of alignment, a power of two. NULL: none, errno
   undefined. *zeroed: whether it is zero already. */
void *large_take(size_t object_bytes, size_t alignment, bool *zeroed);

/* Keeps errno. */
void large_release(struct zone *zone);

/* Resizes the object, maybe moving it; NULL: failed, and it is unchanged. Keeps errno. */
void *large_resize(struct zone *zone, size_t object_bytes);

/* Returns the number of large objects, and their bytes. */
void large_count(size_t *count, size_t *bytes);
