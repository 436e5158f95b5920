/* SPDX-License-Identifier: MIT */
/* What `info` prints of a trace or a workload: counts, sizes, peaks, the recorded process's memory. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/workload/workload_read.h"

#include <jansson.h>

/* Returns a new JSON object; NULL with error. Runs through the whole history for the peaks. */
json_t *info_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

/* The same keys, as far as a workload has them. */
json_t *info_of_workload(const struct workload *workload, struct error *error);

/* For people: the main figures, one per line. The JSON has all of them. */
void info_print(const json_t *info, FILE *out);
