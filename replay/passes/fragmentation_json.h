/* SPDX-License-Identifier: MIT */
/* The parts of resident memory, at each position, as JSON: {"os_page_bytes", "positions", "columns",
   "encoding": "zlib+base64", "values", "usable_size", "walk_states"}. "values": the columns one after another, each
   with a little-endian u64 per position. Columns: README.md of analysis/. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Returns a new object, the caller's; JSON's null if it was not measured; NULL: no memory. */
json_t *report_fragmentation(const struct replay_result *result, const struct baseline *baseline);
