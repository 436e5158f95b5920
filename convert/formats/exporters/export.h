/* SPDX-License-Identifier: MIT */
/* Exporters: write a trace's calls in the format of another replayer. Each is one file whose header comment lists what
   the format can't express; exporting.h has what they share.

   They write the history that `check` proves: steps in their legal order, releases of objects never seen left out, a
   free inserted where one was not seen. Losses are counted and reported. Memory is O(live objects + threads). Not
   thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/files.h"

struct export; /* exporting.h */

struct export_format {
  int (*run)(struct export *export);
};

extern const struct export_format export_format_android, export_format_mtrace, export_format_rep, export_format_wl;

/* What the format can't express; empty: nothing. */
struct export_report {
  char text[512];
};

struct export_job {
  const struct export_format *format;
  struct trace_reader *reader;
  struct output_stream out;
  const struct history_options *history;
};

/* Returns 0, or -1 with error. */
int export_trace(const struct export_job *job, struct export_report *report, struct error *error);
