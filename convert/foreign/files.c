/* SPDX-License-Identifier: MIT */
/* Our own files, which other code of convert reads and writes. */
#include "convert/foreign/format.h"

REGISTER_FORMAT_AS(tape, .name = "tape", .description = "heaptape trace (core/trace/FORMAT.md)", .suffix = ".tape");
REGISTER_FORMAT_AS(work, .name = "work", .description = "heaptape workload (core/workload/WORKLOAD.md)",
                   .suffix = ".work");
REGISTER_FORMAT_AS(csv, .name = "csv", .description = "comma-separated values, as dump --format csv", .suffix = ".csv");
REGISTER_FORMAT_AS(jsonl, .name = "jsonl", .description = "one JSON object per line, as dump --format jsonl",
                   .suffix = ".jsonl");
