/* SPDX-License-Identifier: MIT */
/* Takes a chunk out of an arena: from its lists in turn, then from its top, then from the system. */
#pragma once

#include "allocators/reference/arena/arena.h"
#include "allocators/reference/arena/thread.h"

/* Takes a chunk of `bytes`, marked used, or returns NULL. bin: where to put objects that are cheap to take at the same
   time; or NULL. Needs the lock; errno is undefined afterwards. */
void *arena_take(struct arena *arena, size_t bytes, struct tcache_bin *bin);
