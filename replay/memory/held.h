/* SPDX-License-Identifier: MIT */
/* What the allocator still holds when nothing is live, and what of that it gives back when purged.

   Job: after the last op, free what is live, read RssAnon and VmSize, call the allocator's purge, read again.
   Not its job: memory before that (memory.c). Invariants: on the main thread, when all others have ended, so what their
   caches kept is the allocator's to find; memory pass only. */
#pragma once

#include "replay/state/result.h"

/* Fills in the result's freed, purged and purge_call. The engine's object table is empty afterwards. */
void held_measure(struct replay_result *result);
