/* SPDX-License-Identifier: MIT */
/* Which traces are files of one rotated recording (FORMAT.md section 5c), and which of their threads are the same: so
   that trace_merge.h can make one trace of them again.

   Not its job: copying. Invariant: a trace that is none of those is a recording of its own, all of whose threads are
   new. Memory is O(threads of all). Not thread-safe. */
#pragma once

#include "core/trace/read/trace_read.h"

struct rotated_file {
  uint32_t recording;   /* of the recordings that there are, from 0, in the sequence of their first files */
  uint32_t first, last; /* traces: the recording's first and last */
  uint32_t *threads;    /* by its thread number: number among those of all traces */
  uint64_t set;         /* below here for its own use */
  uint32_t file;        /* number of it; 0: it is none of a rotated recording */
};

struct rotated_files {
  struct rotated_file *at; /* by trace */
  uint32_t count, recordings;
  uint32_t threads; /* of all; one that goes on in another file counts once */
};

/* Files of a recording must come in their sequence, without one left out between them. Returns 0, or -1 with error; to
   be freed either way. */
int rotated_files_find(struct rotated_files *files, struct trace_reader *const *readers, uint32_t count,
                       struct error *error);

void rotated_files_free(struct rotated_files *files);
