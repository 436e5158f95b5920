/* SPDX-License-Identifier: MIT */
/* Slabs: the zones of each size class, with one lock per class. */
#pragma once

#include "allocators/magazine/zone/zone.h"

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

/* Call around a fork. */
void slab_after_fork(unsigned number);
