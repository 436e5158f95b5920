/* SPDX-License-Identifier: MIT */
/* The generator of a workload file: the pattern's threads take turns on one processor, each with its own stack, and
   their calls become ops of a composition.

   Job: turns and waiting. The order is deterministic: round robin, with turns of random length from the seed, so that a
   file is the same for the same options. Memory is O(live objects + live threads). */
#pragma once

#include "core/base/error.h"
#include "workloads/synthetic/pattern.h"

#include <jansson.h>

/* Runs the pattern and writes path, completely or not at all. turn_calls: mean number of calls of a thread's turn, at
   least 1. Takes over the reference of info. Returns the number of ops, or -1 with error. */
int64_t script_write(const struct pattern *pattern, const char *path, uint64_t turn_calls, json_t *info,
                     struct error *error);

/* The parts of pattern.h's functions for scripts. */
void script_start(struct actor *parent, struct actor *child);
void script_join(struct actor *parent, struct actor *child);
void script_wait(struct actor *actor, struct semaphore *semaphore);
void script_post(struct actor *actor, struct semaphore *semaphore);
