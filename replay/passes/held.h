/* SPDX-License-Identifier: MIT */
/* The memory that the allocator still holds when nothing is live, and after a purge.

   Job: after the last op, free what is live, read RssAnon and VmSize, call the allocator's purge, read again.
   Not its job: memory before that (memory.c). Invariants: runs on the main thread, when all other threads have ended,
   so that releasing what their caches kept is up to the allocator; memory pass only. */
#pragma once

#include "replay/engine/result.h"

/* Fills in the result's freed, purged and purge_call. The engine's object table is empty afterwards. */
void held_measure(struct replay_result *result);
