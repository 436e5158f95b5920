/* SPDX-License-Identifier: MIT */
/* Exporters: write a trace's calls in the format of another replayer. Each is one file whose header comment lists what
   the format can't express. They share the history's ops as calls on numbered objects, reduced to the few calls that
   other formats have.

   They write the history that `check` proves: steps in their legal order, releases of objects never seen left out, a
   free inserted where one was not seen. Losses are counted and reported. Memory is O(live objects + threads), of
   minimalloc O(objects). Not thread-safe. */
#pragma once

#include "convert/foreign/format.h"
#include "convert/history/history.h"

#include <stdio.h>

/* How an exporter's struct export_format begins. */
int export_trace(const struct export_job *job, struct text_line *report, struct error *error);

/* Every call of the program is reduced to one of these. */
enum export_kind { EXPORT_MALLOC, EXPORT_CALLOC, EXPORT_ALIGNED, EXPORT_REALLOC, EXPORT_FREE };

struct export_call {
  enum export_kind kind;
  uint8_t call; /* as recorded */
  uint32_t thread;
  uint64_t released, acquired;           /* addresses; 0: NULL or none */
  uint64_t released_number, number;      /* of the objects, from 1, in order of their acquires; 0: none */
  uint32_t last_thread;                  /* the one that used the released object last */
  uint64_t bytes;                        /* the product if the call has a count; UINT64_MAX: it overflows */
  uint64_t size_bytes, count, alignment; /* of CALLOC: the two factors of bytes; alignment: of ALIGNED */
  uint64_t release_ns, acquire_ns;       /* since the recording's start; in the order of the steps */
};

struct export {
  struct trace_reader *reader;
  FILE *out;
  const char *out_name;
  const struct history_options *history;
  struct error *error;
  /* Set by the exporter: returns 0, or -1 with error. thread_end may be NULL. */
  int (*take)(struct export * export, const struct export_call *call);
  void (*thread_end)(struct export * export, uint32_t thread);
  void *context;
  bool one_line_reallocs; /* a realloc's two steps are one line: a realloc that is overtaken becomes free and malloc
                           */
  bool keeps_failures;    /* failed calls that take no object are passed to take, with acquired = 0 */
  struct export_lost {
    uint64_t usable_sizes, failures, split_reallocs, null_frees;
  } lost;
};

/* Runs through the history and hands each call to export->take. Returns 0, or -1 with error. */
int export_calls(struct export *export, struct witness *witness);

/* Sets the error of a failed write. Returns -1. */
int export_write_failed(const struct export *export);
