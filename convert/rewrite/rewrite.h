/* SPDX-License-Identifier: MIT */
/* Makes one trace out of others, in this order: merge, slice, anonymise, and write it as it is or as an archive. Steps
   between the first and the last go through temporary files. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "convert/rewrite/copying/trace_out.h"
#include "convert/rewrite/slice_spec.h"

struct rewrite {
  struct slice_spec slice; /* its texts NULL: no slice */
  bool merge, anonymise, archive;
  struct history_options history;
};

/* Writes path from the readers (one, if it is no merge), which it closes. Returns 0, or -1 with error. */
int rewrite_trace(const struct rewrite *rewrite, struct trace_reader **readers, uint32_t count, const char *path,
                  struct error *error);
