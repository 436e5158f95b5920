/* SPDX-License-Identifier: MIT */
/* Free runs of zones: from freed large objects, kept for the next ones. */
#pragma once

#include "allocators/magazine/zone/zone.h"

/* Returns the smallest kept run of at least bytes that is not much larger; NULL: there is none. Its header has
   run_bytes and dirty_bytes. */
struct zone *runs_take(size_t bytes);

/* Returns the smallest kept run if it has at most most_bytes, else NULL. */
struct zone *runs_take_smallest(size_t most_bytes);

/* Keeps a run, or unmaps it if run_cache bytes are already kept. Keeps errno. */
void runs_give(struct zone *run);

/* Unmaps all kept runs. Returns whether there were any. */
bool runs_trim(void);

/* Calls visit for each kept run, under the lock. */
void runs_walk(void (*visit)(const struct zone *run, void *context), void *context);

/* Call around a fork. */
void runs_lock(void);
void runs_unlock(void);
void runs_after_fork(void);
