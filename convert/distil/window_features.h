/* SPDX-License-Identifier: MIT */
/* What the windows of a workload are like, of equally many ops each: one row of counts a window, written as it ends.

   Output: a line of JSON, {"ops", "window_ops", "windows", "columns": [name, ...]}, then `windows` rows of one u64 a
   column, little-endian. Columns: README.md. Not its job: to choose among them (analysis/heaptape/distil/).
   One walk; memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/files/output_file.h"
#include "core/workload/workload_read.h"

/* window_ops: at least 1; the last window has what remains. Returns 0, or -1 with error. */
int window_features_write(const struct workload *workload, uint64_t window_ops, struct output_stream out,
                          struct error *error);
