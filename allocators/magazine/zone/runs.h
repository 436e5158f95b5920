/* SPDX-License-Identifier: MIT */
/* Free runs of zones: what large objects had, kept for the next ones. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Gives the smallest kept run of at least bytes that is not much larger, NULL: there is none. Its header has run_bytes
   and dirty_bytes. */
struct zone *runs_take(size_t bytes);

/* Gives the smallest kept run, if it is at most that large. */
struct zone *runs_take_smallest(size_t most_bytes);

/* Keeps a run, or unmaps it where run_cache bytes are kept. Keeps errno. */
void runs_give(struct zone *run);

/* Unmaps all. Returns whether there were any. */
bool runs_trim(void);

/* Calls visit for each, under the lock. */
void runs_walk(void (*visit)(const struct zone *run, void *context), void *context);

/* Around a fork. */
void runs_lock(void);
void runs_unlock(void);
void runs_after_fork(void);
