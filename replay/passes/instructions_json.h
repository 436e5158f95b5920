/* SPDX-License-Identifier: MIT */
/* The instructions pass in a result: keys "calls", "instructions_total" and related ones, "windows". Not its job:
   counting (replay/passes/instruction_counter.h). */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Returns the positions of "windows". */
json_t *window_positions_json(const struct window_edges *edges);

void report_instructions(json_t *into, const struct run *run);
