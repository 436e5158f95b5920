/* SPDX-License-Identifier: MIT */
/* Prints a trace's events in merged order, one per line, as text (import_text.c defines it and reads it back), CSV or
   JSON lines.

   An event is printed at the position of its last step. Order is by stamp alone: dump shows what was recorded and does
   not repair inversions (`check` counts them). Streaming: memory is one open block per thread. Not thread-safe. */
#pragma once

#include "core/base/files.h"
#include "core/trace/read/trace_read.h"

enum dump_format { DUMP_TEXT, DUMP_CSV, DUMP_JSONL };

/* Printing of call stacks: none, or each where it first occurs, without or with debuginfod. */
enum dump_stacks { DUMP_NO_STACKS, DUMP_STACKS, DUMP_STACKS_FETCHED };

struct dump_options {
  enum dump_format format;
  enum dump_stacks stacks;
  uint32_t thread; /* the only one to print, or MERGE_ALL_THREADS */
};

/* Returns 0, or -1 with error, also for a failed write. */
int dump_trace(struct trace_reader *reader, const struct dump_options *options, struct output_stream out,
               struct error *error);

/* Returns the format of that name: text, csv or jsonl; -1: none. */
int dump_format_by_name(const char *name);
