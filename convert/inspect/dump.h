/* SPDX-License-Identifier: MIT */
/* What `dump` prints, streaming, as text, CSV or JSON lines: a trace's events and call stacks, a workload's
   ops.

   Events are in merged order, one per line, each at the position of its last step; their text is what text.c reads.
   Order is by stamp alone: dump shows what was recorded and does not repair inversions (`check` counts them). Memory is
   one open block per thread. Not thread-safe. */
#pragma once

#include "convert/inspect/lines.h"
#include "core/trace/read/trace_read.h"
#include "core/workload/workload_read.h"

#include <stdio.h>

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

/* Prints a workload's ops in their recorded total order, one per line, as text, CSV or JSON lines.

     # heaptape workload: 3 ops of 2 threads, 1 slots
     0 0 malloc(24) slot=0 start=1
     1 1 realloc(4294967296) slot=0 wait=0:1 time=1200000
     2 1 free() slot=0

   Position, thread, call with its count or alignment and its size, then the op's words (WORKLOAD.md): the slot, flags
   ("null": NULL is passed in; "frees": a realloc that ended the object), WAITs as THREAD:OPS, threads that are started
   before it or right after it, recorded time in ns, touched OS pages.

   options: stacks is ignored. Returns 0, or -1 with error, also for a failed write. */
int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error);

/* What is printed of a trace instead of its events, as an option asks that a feature adds to `dump` (CLI_ADD): the
   fields of these options are a dump_instead *, NULL before the first. Returns 0, or -1 with error. */
typedef int dump_instead(const struct trace_reader *reader, enum dump_format format, struct output_stream out,
                         struct error *error);

/* Call stacks, each where it first occurs in dump, or all nodes of the tree that they form.

   As text: comment lines, innermost function first, so that it reads back:
     # stack 7
     #   inner at /src/a.c:5 in a.out+0x118c
     #   main at /src/a.c:9 in a.out+0x1190
   As JSON: one object on a line, {"stack": 7, "frames": [{"function", "file", "line", "module", "offset"}]};
   unknown values are left out. A node is {"node": 7, "parent": 3, "frames": [...]}: its own frames only, several where
   functions were inlined.

   Prints every node of the trace as JSON, parents before children; no event is read. fetch: as for symbols_open.
   Returns 0, or -1 with error. An error of writing names out_name. */
int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error);
