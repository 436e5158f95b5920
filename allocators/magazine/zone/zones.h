/* SPDX-License-Identifier: MIT */
/* The zone magazine, in front of mmap: free zones of any former use.

   When it is empty, several zones are mapped at once (a burst), fewer with each burst: a program that starts asks for
   many soon. When it is full, it is emptied down to a low mark. Before mmap, a free run
   of zones is divided that was kept for large objects (runs.h). */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Gives a zone, of whose header dirty_bytes alone is set; NULL: no memory. */
struct zone *zones_take(void);

/* Takes a zone back; nothing in it is used, and its dirty_bytes are right. */
void zones_give(struct zone *zone);

/* Of a zone or run that is used again from its begin: gives the OS pages from there on back, if that is worth a call.
 */
void zone_purge(struct zone *zone, size_t from_bytes);

/* Unmaps all that are kept. Returns whether there were any. */
bool zones_trim(void);

/* Bytes of all zones that are mapped and not part of a longer run, and the most that there were. */
size_t zones_mapped_bytes(size_t *most);

/* Calls visit for each kept zone, under the lock. */
void zones_walk(void (*visit)(const struct zone *zone, void *context), void *context);

/* Around a fork. */
void zones_lock(void);
void zones_unlock(void);
void zones_after_fork(void);
