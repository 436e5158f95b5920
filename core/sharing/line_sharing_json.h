/* SPDX-License-Identifier: MIT */
/* Cache-line sharing as JSON, the same for a trace's own addresses and for a replay:

     {"line_bytes": 64, "sampled": 1 (all; else one OS page in that many), "ops", "objects", "shared_objects", "pairs",
     "used_pairs", "objects_left_out", "shared_lines" | "object_pairs" | "live_lines": {"end", "peak", "peak_position",
     "mean"}, "sizes": [[up to bytes (null: more), objects, shared objects, pairs], ...], "threads": [[thread, thread,
     pairs, mean pairs], ...], "threads_left_out": pairs, "progress": [[ops done, shared lines, object pairs, live
     lines, peak of shared lines since the row before], ...]}

   line_sharing.h defines each count; means are over ops; threads are the LINE_SHARING_THREADS_LISTED pairs of threads
   with the most pairs of objects, most first. */
#pragma once

#include "core/sharing/line_sharing.h"

#include <jansson.h>

enum { LINE_SHARING_THREADS_LISTED = 512 };

/* A new object, the caller's. Sorts counts->threads. */
json_t *line_sharing_json(struct line_sharing_counts *counts);
