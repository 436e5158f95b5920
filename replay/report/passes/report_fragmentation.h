/* SPDX-License-Identifier: MIT */
/* What the resident memory consists of, at each position, as JSON: {"os_page_bytes", "positions", "columns",
   "encoding": "zlib+base64", "values", "usable_size", "walk_states"}. "values": of each column, one after
   another, a little-endian u64 for each position. Columns: README.md of analysis/. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* A new object, the caller's; JSON's null where it was not measured; NULL: no memory. */
json_t *report_fragmentation(const struct replay_result *result, const struct baseline *baseline);
