/* SPDX-License-Identifier: MIT */
/* What a trace's INFO and FOOTER contain, as C values with their defaults. Job: tolerate any JSON. Not its job: reading
 * the file, sampling. */
#pragma once

#include "convert/history/program_clock.h"
#include "core/base/vector.h"
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
  json_t *set_before;     /* array of [call, option, value], or NULL */
  bool lacks_addresses;   /* they are made up: `lacks` has "addresses" */
  uint64_t os_page_bytes; /* a power of two; 4096 if absent or invalid */
};

void trace_info_read(struct trace_info *info, const char *info_json);
void trace_info_free(struct trace_info *info);

/* The recorded process's memory from start to end, thinned out to a bounded number of samples, and their peaks.

   A row's RssAnon is the peak since the row before (trace_sample_anon_peak). Thinning keeps the row with the highest
   RssAnon of each group, so that peaks survive. */

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
  struct trace_sample last;   /* of those */
  uint64_t group, group_size; /* samples in the last row; maximum per row */
  /* Peaks and last values over all samples; TRACE_SAMPLE_MISSING: never available. */
  uint64_t rss_anon_peak_bytes, vm_size_peak_bytes, vm_hwm_bytes;
  uint64_t minor_faults, major_faults, user_ns, system_ns;
  struct program_clock clock;
  uint64_t throttled_ns;  /* a quota of processor time held it back, from the first sample to the last */
  uint64_t cpu_before_ns; /* user and system time at the first sample: 0 unless the process ran before its recording */
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

/* The marks of a trace, in memory, each returned at its place among the events.

   Job: a mark comes before the first event of its own thread that was made after it, and before the first event of any
   thread with its stamp or a later one, whichever is first. A thread's own events may have the stamp of an earlier
   event, and a thread that sets marks need not allocate. Memory is O(marks + threads). Not thread-safe. */

struct recorded_mark {
  uint64_t stamp, events; /* events: of its thread before it */
  uint64_t position;      /* for the user */
  uint32_t thread;
  bool passed; /* was returned */
  char *text;
};

struct recorded_marks {
  VECTOR(struct recorded_mark) list; /* by stamp */
  size_t next_by_stamp;
  uint32_t threads;
  uint64_t *events; /* passed events of each thread */
  size_t *next;     /* by thread: index in the list from which its pending marks are */
};

/* Returns 0, or -1 with error; marks can be freed either way. */
int recorded_marks_load(struct recorded_marks *marks, struct trace_reader *reader, struct error *error);
void recorded_marks_free(struct recorded_marks *marks);

/* Returns to the start, for another run. passed: events of each thread that the reader leaves out; NULL: none. */
void recorded_marks_rewind(struct recorded_marks *marks, const uint64_t *passed);

/* Returns the next mark that comes before an event of that thread with that stamp (0: by its own thread's events alone;
   UINT64_MAX: all that remain); NULL: none. Call it until it returns NULL. */
struct recorded_mark *recorded_marks_before(struct recorded_marks *marks, uint32_t thread, uint64_t stamp);

/* Call it after an event of the thread. */
void recorded_marks_after_event(struct recorded_marks *marks, uint32_t thread);
