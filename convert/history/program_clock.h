/* SPDX-License-Identifier: MIT */
/* The recorded wall time less what the recording took of it: waits for room in the rings, and the time that recording
   each call and large objects takes, from the samples.

   Job: a rising map from stamps to that time. Between two samples at which the process had used processor time, its
   threads have run, waited for a processor and waited for the recorder for so long in all; the recording's share of
   that is taken out of as much of the time between them as threads were not asleep, up to all of it. What a thread
   waits for a processor grows with what it runs, so recording a call costs the same share of both. Samples without
   waits (older traces, imports): the time is as recorded. Memory is bounded; not thread-safe. */
#pragma once

#include "core/trace/summary.h"

#include <stdint.h>

enum { PROGRAM_CLOCK_POINTS = 2048 };

struct program_clock_point {
  uint64_t stamp;
  double taken_ns; /* out of the time until then */
};

struct program_clock {
  double hz, call_ns; /* 0: not known */
  struct program_clock_point points[PROGRAM_CLOCK_POINTS];
  uint32_t count;
  double step_ns;           /* least time between two points */
  double carried_ns;        /* still to be taken: the kernel tells late what ran */
  double at_once;           /* threads, before the last point; 1 where that is not known */
  struct trace_sample last; /* at the last point */
};

/* call_ns: processor time that recording a call takes. */
void program_clock_begin(struct program_clock *clock, double hz, double call_ns);

/* Samples come in order. */
void program_clock_sample(struct program_clock *clock, const struct trace_sample *sample);

/* What is taken out of the time until a stamp, in ns. */
double program_clock_taken_ns(const struct program_clock *clock, uint64_t stamp);
