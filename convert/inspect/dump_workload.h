/* SPDX-License-Identifier: MIT */
/* Prints a workload's ops in their recorded total order, one per line, as text, CSV or JSON lines.

     # heaptape workload: 3 ops of 2 threads, 1 slots
     0 0 malloc(24) slot=0 start=1
     1 1 realloc(4294967296) slot=0 wait=0:1 time=1200000
     2 1 free() slot=0

   Position, thread, call with its count or alignment and its size, then the op's words (WORKLOAD.md): the slot, flags
   ("null": NULL is passed in; "frees": a realloc that ended the object), WAITs as THREAD:OPS, threads that are started
   before it or right after it, recorded time in ns, touched OS pages.

   Not its job: the walk (core/workload/workload_read.h), which determines errors and memory. Not thread-safe. */
#pragma once

#include "convert/inspect/dump.h"
#include "core/workload/workload_read.h"

/* options: stacks is ignored. Returns 0, or -1 with error, also for a failed write. */
int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error);
