/* SPDX-License-Identifier: MIT */
/* What a trace's INFO and FOOTER contain, as C values with their defaults. Job: tolerate any JSON. Not its job: reading
 * the file. */
#pragma once

#include "core/trace/read/trace_read.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct trace_info {
  json_t *json;      /* the whole object */
  const char *order; /* "" if absent; these strings belong to json */
  const char *clock_kind;
  const char *program;
  const char *source;
  const char *allocator;
  json_t *lacks;          /* array, or NULL */
  bool lacks_in_flight;   /* so may one object per thread whose acquire was under way: `lacks` has "in_flight" */
  bool lacks_start;       /* objects from before the recording may be freed in it: `lacks` has "start" */
  bool lacks_calls;       /* calls of a kind or of a library are missing throughout: `lacks` has "calls" */
  uint64_t os_page_bytes; /* a power of two; 4096 if absent or invalid */
};

void trace_info_read(struct trace_info *info, const char *info_json);
void trace_info_free(struct trace_info *info);

/* The recorded process's memory from start to end, thinned out to a bounded number of samples, and their peaks.

   Thinning keeps the sample with the highest RssAnon of each group, so that peaks survive. Not its job: sampling. */

enum { RECORDED_SAMPLES_MAX = 2048 };

struct recorded_sample {
  uint64_t stamp, position;
  uint64_t rss_anon_bytes, vm_size_bytes; /* TRACE_SAMPLE_MISSING if not available */
};

struct recorded_samples {
  struct recorded_sample rows[RECORDED_SAMPLES_MAX];
  uint32_t count;
  uint32_t placed;            /* rows whose position is known */
  uint64_t next_stamp;        /* no row gets a position before it */
  uint64_t seen;              /* in the trace */
  uint64_t group, group_size; /* samples in the last row; maximum per row */
  /* Peaks and last values over all samples; TRACE_SAMPLE_MISSING: never available. */
  uint64_t rss_anon_peak_bytes, vm_size_peak_bytes, vm_hwm_bytes;
  uint64_t minor_faults, major_faults, user_ns, system_ns;
};

/* Reads all samples of the trace. Returns 0, or -1 with error. */
int recorded_samples_load(struct recorded_samples *samples, struct trace_reader *reader, struct error *error);

/* The op at that position has that stamp: samples up to this stamp get the position. */
void recorded_samples_place(struct recorded_samples *samples, uint64_t stamp, uint64_t position);
static inline void recorded_samples_advance(struct recorded_samples *samples, uint64_t stamp, uint64_t position) {
  if (stamp >= samples->next_stamp)
    recorded_samples_place(samples, stamp, position);
}

/* [[position, rss_anon_bytes, vm_size_bytes], ...]; null if a value is not available. */
json_t *recorded_samples_json(const struct recorded_samples *samples);
