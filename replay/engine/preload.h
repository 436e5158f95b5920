/* SPDX-License-Identifier: MIT */
/* Reports what the dynamic linker has loaded into the engine: the requested allocators, and the linker itself.
   Uses no malloc. */
#pragma once

#include "replay/engine/result.h"

/* Fills in preloads_missing (from LD_PRELOAD: the linker only warns about a library that it can't load), linker_first
   and linker_last. */
void preload_report(struct replay_result *result);
