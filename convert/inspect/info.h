/* SPDX-License-Identifier: MIT */
/* What `info` prints of a trace or a workload: counts, sizes, peaks, the recorded process's memory. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/workload_read.h"

#include <jansson.h>
#include <stdio.h>

/* Returns a new JSON object; NULL with error. Runs through the whole history for the peaks. */
json_t *info_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

/* The same keys, as far as a workload has them. */
json_t *info_of_workload(const struct workload *workload, struct error *error);

/* Adds to the JSON the main figures in words: "about", "sentences", "caveats", and "next": what to type then. */
void info_add_said(json_t *info, const char *path);

/* For people, as wide as the terminal, with control characters escaped: the main figures, in a dozen lines, with what
   to type next where that was added, or all. */
void info_print(const json_t *info, bool all, FILE *out);
