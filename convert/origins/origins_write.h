/* SPDX-License-Identifier: MIT */
/* Writes the origins file beside a workload (docs/use/BLAME.md): which call stack acquired each object, and the
   positions of the marks.

   Job: observe the ops as they are compiled, and write the file. Not its job: the ops (convert/compile/), names of
   functions (convert/stacks/). Invariants: sites are numbered by their first op; a realloc of a live object creates no
   new site. Memory is O(stack nodes + marks + threads). Not thread-safe. */
#pragma once

#include "convert/compile/compile.h"

struct origins_writer;

/* Creates or truncates path. Returns 0, or -1 with error. */
int origins_writer_open(struct origins_writer **out, struct trace_reader *reader, const char *path,
                        struct error *error);

/* To be given to compile_trace. */
struct compile_observer origins_writer_observer(struct origins_writer *writer);

/* When the workload is complete at that path: looks up symbols, completes the file. Returns 0, or -1 with error. */
int origins_writer_finish(struct origins_writer *writer, const char *workload, struct error *error);

/* writer may be NULL. */
void origins_writer_free(struct origins_writer *writer);
