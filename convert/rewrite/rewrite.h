/* SPDX-License-Identifier: MIT */
/* Makes one trace from others, in this order: merge, slice, anonymise, and write it as a normal trace or an archive.
   Steps between the first and the last go through temporary files. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/rewrite/copying/trace_out.h"
#include "convert/rewrite/slice_spec.h"

struct rewrite {
  struct slice_spec slice; /* texts is NULL: no slice */
  bool merge, anonymise, archive;
  struct history_options history;
};

/* Writes path from the readers (one, unless it is a merge). Returns 0, or -1 with error. */
int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error);
