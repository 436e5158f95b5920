/* SPDX-License-Identifier: MIT */
/* The file of --windows: the positions between which the passes instructions and misses count.

   One position per line, rising, none behind the workload's end; at least two. Not its job: counting
   (replay/passes/instructions.h). */
#pragma once

#include "core/base/error.h"
#include "replay/engine/result.h"

/* ops: of the workload. Returns 0, or -1 with error, which names the line. */
int window_edges_read(struct window_edges *edges, const char *path, uint64_t ops, struct error *error);
