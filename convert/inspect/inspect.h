/* SPDX-License-Identifier: MIT */
/* What `info` prints of a trace or a workload: counts, sizes, peaks, the recorded process's memory. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/files.h"
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

/* The profile of a trace: the demands of its program on an allocator. Request sizes, lifetimes, rates, who frees whose
   objects, growth by realloc, and which call stacks allocate what.

   Invariants: one pass; memory is O(live objects + threads + stack nodes) and bounded tables; what does not fit into a
   bounded table is counted as left out. */

/* A new JSON object (keys: docs/formats/PROFILE_JSON.md), or NULL with error. Runs through the whole history. */
json_t *profile_of_trace(struct trace_reader *reader, const struct history_options *options, struct error *error);

/* What was acquired in the spans of a recording, which its program has marked: for example, the peak of
   a test and the memory that it leaves behind.

   Job: a run over the history, and figures as JSON; if sites are requested, a second run for the objects that live at
   the peak. Definition: a span's own objects are those acquired, by any thread, between "own" and "rest"; an object
   that a realloc moves or resizes there is its own from then on, with its whole new size. So a span's figures need no
   event before it. Memory is O(live objects + marks). Not thread-safe. */

struct spans_options {
  const struct history_options *history;
  uint64_t from_byte; /* events in blocks that begin before this offset of the file are left out; 0: none are */
  uint32_t sites;     /* number of sites in each list, the largest first; 0: no lists */
};

/* {"spans": [{"name", "ended", "allocations", "allocated_bytes", "peak_bytes", "growth_bytes", "growth_objects"}],
   "events", "dropped"}. With sites also "peak_sites" and "growth_sites": [{"bytes", "objects", "place", "frames"}], and
   "peak_objects". "place": the N of "heaptape:at N", null if there was no such mark; "frames": as in `dump --stacks`,
   innermost first, empty where stacks were not recorded. "ended" is false for a span that ended only because another
   began or the recording ended. NULL with error. */
json_t *spans_of_trace(struct trace_reader *reader, const struct spans_options *options, struct error *error);

/* Prints a trace's events in merged order, one per line, as text (text.c defines it and reads it back), CSV or
   JSON lines.

   An event is printed at the position of its last step. Order is by stamp alone: dump shows what was recorded and does
   not repair inversions (`check` counts them). Streaming: memory is one open block per thread. Not thread-safe. */

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

/* Prints a workload's ops in their recorded total order, one per line, as text, CSV or JSON lines.

     # heaptape workload: 3 ops of 2 threads, 1 slots
     0 0 malloc(24) slot=0 start=1
     1 1 realloc(4294967296) slot=0 wait=0:1 time=1200000
     2 1 free() slot=0

   Position, thread, call with its count or alignment and its size, then the op's words (WORKLOAD.md): the slot, flags
   ("null": NULL is passed in; "frees": a realloc that ended the object), WAITs as THREAD:OPS, threads that are started
   before it or right after it, recorded time in ns, touched OS pages.

   Not its job: the walk (core/workload/workload_read.h), which determines errors and memory. Not thread-safe. */

/* options: stacks is ignored. Returns 0, or -1 with error, also for a failed write. */
int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error);

/* Prints a trace's data accesses, with the calls between them, one per line, in the trace's own order.

   As text: `call 0 sp=0x7ffe1230`, `call 0 sp=0x7ffe1230 acquires 7` (object 7), `object 7 +0x20` (an access to the
   granule at that offset, or `-0x10`), `other 0x7ffe1240`. CSV and JSON lines have kind, thread, acquires (0 or 1),
   stack_pointer, object and granule (in units of 16 bytes), numbers in decimal. Streaming: memory is one block. */

/* Returns 0, or -1 with error, also if the trace has no accesses. An error of writing names out_name. */
int dump_accesses(const struct trace_reader *reader, enum dump_format format, struct output_stream out,
                  struct error *error);

/* Call stacks, each where it first occurs in dump, or all nodes of the tree that they form.

   As text: comment lines, innermost function first, so that it reads back:
     # stack 7
     #   inner at /src/a.c:5 in a.out+0x118c
     #   main at /src/a.c:9 in a.out+0x1190
   As JSON: one object on a line, {"stack": 7, "frames": [{"function", "file", "line", "module", "offset"}]};
   unknown values are left out. A node is {"node": 7, "parent": 3, "frames": [...]}: its own frames only, several where
   functions were inlined. Not thread-safe. */

/* Prints every node of the trace as JSON, parents before children; no event is read. fetch: as for symbols_open.
   Returns 0, or -1 with error. An error of writing names out_name. */
int dump_stack_nodes(struct trace_reader *reader, bool fetch, FILE *out, const char *out_name, struct error *error);
