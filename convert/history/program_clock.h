/* SPDX-License-Identifier: MIT */
/* The recorded wall time less what the recording and the machine's other work took of it: waits for room in the rings,
   waits for a processor, and the time that recording each call and large objects takes, from the samples.

   Job: a rising map from stamps to that time. Between two samples at which the process had used processor time, its
   threads have run, waited for a processor and waited for the recorder for so long in all: so many of them were active
   at once, never more than were active at all. What then ran of the program's own, at once on no more processors than
   it might use, is the program's; the rest of the time in which any thread was active is taken out. Samples without
   these quantities (older traces, imports): the time is as recorded. Memory is bounded; not thread-safe. */
#pragma once

#include "core/trace/summary.h"

#include <stdint.h>

enum { PROGRAM_CLOCK_POINTS = 2048 };

struct program_clock_point {
  uint64_t stamp;
  double taken_ns, asleep_ns; /* until then: out of the time; in which no thread was active */
  /* Since the point before: of all threads; how many were active at most, and on average. */
  double ran_ns, waits_ns, recording_ns, threads, at_once;
};

struct program_clock {
  double hz, call_ns, processors; /* 0: not known */
  struct program_clock_point points[PROGRAM_CLOCK_POINTS];
  uint32_t count;
  double step_ns;                 /* least time between two points */
  struct program_clock_point now; /* the next one */
  struct trace_sample last;
};

/* call_ns: processor time that recording a call takes. processors: that the program might use. */
void program_clock_begin(struct program_clock *clock, double hz, double call_ns, double processors);

/* Samples come in order. */
void program_clock_sample(struct program_clock *clock, const struct trace_sample *sample);

/* The share of the program's time in which no thread was active; NAN: not known. */
double program_clock_asleep(const struct program_clock *clock);

/* What is taken out of the time until a stamp, in ns. */
double program_clock_taken_ns(const struct program_clock *clock, uint64_t stamp);
