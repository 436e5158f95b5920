/* SPDX-License-Identifier: MIT */
/* What `info` prints of a trace or a workload: counts, sizes, peaks, the recorded process's memory. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/workload/workload_read.h"

#include <jansson.h>

/* A new JSON object with the keys of DESIGN section 9 and more; NULL with error. Runs through the whole history for the
 * peaks. */
json_t *info_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

/* The same keys where a workload knows them. */
json_t *info_of_workload(const struct workload *workload, struct error *error);

/* For people: what a reader wants to know first, a line each. The JSON has all of it. */
void info_print(const json_t *info, FILE *out);
