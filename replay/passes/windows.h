/* SPDX-License-Identifier: MIT */
/* Windows: positions between which a pass counts (--windows), and the snapshots that our Valgrind tool takes there.

   Job: read the file of positions, in the parent; have the tool take a snapshot (observe/valgrind) when the replay has
   reached one, in the engine. Not its job: what is in a snapshot. Under ORDER_RECORDED only: one thread runs at a time,
   and turns follow the recorded order. */
#pragma once

#include "core/base/error.h"
#include "replay/engine/run_spec.h"

#include <jansson.h>

/* Positions, strictly rising, at most the workload's ops. */
enum { WINDOW_EDGES_LIMIT = 1 << 16 };
struct window_edges {
  uint32_t count; /* 0, or at least 2 */
  uint64_t positions[WINDOW_EDGES_LIMIT];
};

/* Reads the spec's file: one position per line, rising, none behind the workload's end; at least two. No file: does
   nothing. Returns 0, or -1 with error, which names the line. */
int windows_read(struct window_edges *edges, const struct run_spec *spec, struct error *error);

/* Returns the positions as JSON. */
json_t *windows_positions_json(const struct window_edges *edges);

/* edges must stay valid, and may be empty. Call right before the first op, while no thread runs ops. */
void windows_begin(const struct window_edges *edges);

/* Call after each op, from the thread that has the turn. */
void windows_after_op(void);
