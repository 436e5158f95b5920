/* SPDX-License-Identifier: MIT */
/* Which traces are files of one rotated recording (FORMAT.md section 5c), and which of their threads are identical, so
   that trace_merge.h can join them into one trace again.

   Not its job: copying. Invariant: a trace that is not such a file is a separate recording, all of whose threads are
   new. Memory is O(threads of all). Not thread-safe. */
#pragma once

#include "core/trace/read/trace_read.h"

struct rotated_file {
  uint32_t recording;   /* number of the recording, from 0, in the sequence of their first files */
  uint32_t first, last; /* traces: the recording's first and last */
  uint32_t *threads;    /* by its thread number: number among the threads of all traces */
  uint64_t set;         /* from here on: internal */
  uint32_t file;        /* number of the file; 0: not of a rotated recording */
};

struct rotated_files {
  struct rotated_file *at; /* by trace */
  uint32_t count, recordings;
  uint32_t threads; /* of all traces; one that continues in another file counts once */
};

/* Files of a recording must come in their sequence, without gaps. Returns 0, or -1 with error; free them either way. */
int rotated_files_find(struct rotated_files *files, struct trace_reader *const *readers, uint32_t count,
                       struct error *error);

void rotated_files_free(struct rotated_files *files);
