/* SPDX-License-Identifier: MIT */
/* The recorded process's memory from start to end, thinned out to a bounded number of samples, and their peaks.

   Thinning keeps the sample with the highest RssAnon of each group, so that peaks survive. Not its job: sampling. */
#pragma once

#include "core/trace/read/trace_read.h"

#include <jansson.h>

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
