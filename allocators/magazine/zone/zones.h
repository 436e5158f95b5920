/* SPDX-License-Identifier: MIT */
/* The zone magazine, in front of mmap: free zones of any former use.

   When it is empty, several zones are mapped at once (a burst), fewer with each burst: a starting program soon requests
   many. When it is full, it is emptied down to a low mark. Before mmap is used, a free run of zones that was kept for
   large objects (runs.h) is divided. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Returns a zone; of its header, only dirty_bytes is set. NULL: no memory. */
struct zone *zones_take(void);

/* Takes a zone back; nothing in it may be used, and its dirty_bytes must be right. */
void zones_give(struct zone *zone);

/* For a zone or run whose start is used again: gives back the OS pages from from_bytes on, if that is worth a call. */
void zone_purge(struct zone *zone, size_t from_bytes);

/* Unmaps all kept zones. Returns whether there were any. */
bool zones_trim(void);

/* Returns the bytes of all zones that are mapped and not part of a longer run, and their maximum so far. */
size_t zones_mapped_bytes(size_t *most);

/* Calls visit for each kept zone, under the lock. */
void zones_walk(void (*visit)(const struct zone *zone, void *context), void *context);

/* Call around a fork. */
void zones_lock(void);
void zones_unlock(void);
void zones_after_fork(void);
