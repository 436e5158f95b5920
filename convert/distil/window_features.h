/* SPDX-License-Identifier: MIT */
/* Features of the windows of a workload, which have equally many ops each: one row of counts per window, written when
   it ends.

   Output: a line of JSON, {"ops", "window_ops", "windows", "columns": [name, ...]}, then `windows` rows of one u64 per
   column, little-endian. Columns: README.md. Not its job: choosing windows (analysis/heaptape/distil/). One walk;
   memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/base/files.h"
#include "core/workload/workload_read.h"

/* window_ops: at least 1; the last window has the remaining ops. Returns 0, or -1 with error. */
int window_features_write(const struct workload *workload, uint64_t window_ops, struct output_stream out,
                          struct error *error);
