/* SPDX-License-Identifier: MIT */
#include "convert/history/program_clock.h"

#include <math.h>
#include <stdbool.h>

static const double FIRST_STEP_NS = 20e6, MOST = 0.9999;

void program_clock_begin(struct program_clock *clock, double hz, double call_ns, double processors) {
  *clock = (struct program_clock){.hz = hz, .call_ns = call_ns, .processors = processors, .step_ns = FIRST_STEP_NS};
}

static double least(double one, double other) {
  return one < other ? one : other;
}

static double most(double one, double other) {
  return one > other ? one : other;
}

/* 0 where a value went back: of threads that have ended. */
static double rise(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

/* Every second point, and twice as far apart. */
static void thin_out(struct program_clock *clock) {
  for (uint32_t i = 1; i < PROGRAM_CLOCK_POINTS / 2; i++) {
    struct program_clock_point skipped = clock->points[2 * i - 1], *point = &clock->points[i];
    *point = clock->points[2 * i];
    point->ran_ns += skipped.ran_ns;
    point->waits_ns += skipped.waits_ns;
    point->recording_ns += skipped.recording_ns;
    point->threads = most(point->threads, skipped.threads);
  }
  clock->count = PROGRAM_CLOCK_POINTS / 2;
  clock->step_ns *= 2;
}

static double span_ns(const struct program_clock *clock, const struct program_clock_point *to) {
  return rise(to[-1].stamp, to->stamp) * 1e9 / clock->hz;
}

static double at_once_of(const struct program_clock *clock, const struct program_clock_point *to) {
  return least(most((to->ran_ns + to->waits_ns) / span_ns(clock, to), 1), most(to->threads, 1));
}

/* How much of the time since the point before threads were active, and how much of that is the recording's or the
   machine's. next: of the span behind; 0: there is none yet. */
static void take(const struct program_clock *clock, struct program_clock_point *to, double next) {
  double passed_ns = span_ns(clock, to), around = most(to[-1].at_once, next);
  double at_once = least(most(to->at_once, around), most(to->threads, 1)); /* a burst's first and last are not full */
  double own_ns = to->ran_ns - least(to->recording_ns, to->ran_ns / 2);
  double active_ns = least((to->ran_ns + to->waits_ns) / at_once, passed_ns);
  double taken_ns = least(most(active_ns - own_ns / least(at_once, clock->processors), 0), MOST * passed_ns);
  to->taken_ns = to[-1].taken_ns + taken_ns;
  to->asleep_ns = to[-1].asleep_ns + passed_ns - active_ns;
}

static void put_point(struct program_clock *clock) {
  if (clock->count == PROGRAM_CLOCK_POINTS)
    thin_out(clock);
  struct program_clock_point *first = &clock->points[1], *last = &clock->points[clock->count++], *late = last;
  *last = clock->now;
  clock->now = (struct program_clock_point){0};
  double threads = last->threads;
  for (;; late--) {
    late->threads = most(late->threads, threads);
    double excess_ns = late->ran_ns + late->waits_ns - span_ns(clock, late) * late->threads;
    if (excess_ns <= 0 || late == first)
      break;
    excess_ns = least(excess_ns, late->waits_ns);
    late->waits_ns -= excess_ns; /* the kernel tells of a wait when it has ended: it began before */
    late[-1].waits_ns += excess_ns;
  }
  for (struct program_clock_point *point = late; point <= last; point++)
    point->at_once = at_once_of(clock, point);
  for (late -= late > first; late <= last; late++)
    take(clock, late, late < last ? late[1].at_once : 0);
}

static bool is_known(const struct trace_sample *sample) {
  return sample->user_ns != TRACE_SAMPLE_MISSING && sample->system_ns != TRACE_SAMPLE_MISSING &&
         sample->queued_ns != TRACE_SAMPLE_MISSING && sample->waited_ns != TRACE_SAMPLE_MISSING &&
         sample->calls != TRACE_SAMPLE_MISSING && sample->reading_ns != TRACE_SAMPLE_MISSING &&
         sample->active_threads != TRACE_SAMPLE_MISSING;
}

void program_clock_sample(struct program_clock *clock, const struct trace_sample *sample) {
  const struct trace_sample last = clock->last;
  struct program_clock_point *now = &clock->now;
  if (clock->hz <= 0 || clock->processors <= 0 || !is_known(sample))
    return;
  clock->last = *sample;
  now->stamp = sample->stamp;
  if (!clock->count) {
    clock->points[clock->count++] = *now;
    return;
  }
  now->ran_ns += rise(last.user_ns + last.system_ns, sample->user_ns + sample->system_ns);
  now->waits_ns += rise(last.queued_ns, sample->queued_ns) + rise(last.waited_ns, sample->waited_ns);
  now->recording_ns += clock->call_ns * rise(last.calls, sample->calls) + rise(last.reading_ns, sample->reading_ns);
  now->threads = most(now->threads, (double)sample->active_threads);
  const struct program_clock_point *from = &clock->points[clock->count - 1];
  if (rise(from->stamp, now->stamp) * 1e9 / clock->hz >= clock->step_ns)
    put_point(clock);
}

double program_clock_asleep(const struct program_clock *clock) {
  if (!clock->count)
    return NAN;
  const struct program_clock_point *last = &clock->points[clock->count - 1];
  double of_ns = rise(clock->points[0].stamp, last->stamp) * 1e9 / clock->hz - last->taken_ns;
  return of_ns > 0 ? least(last->asleep_ns / of_ns, 1) : NAN;
}

double program_clock_taken_ns(const struct program_clock *clock, uint64_t stamp) {
  uint32_t from = 0, to = clock->count;
  while (from < to) { /* the first point after the stamp */
    uint32_t middle = (from + to) / 2;
    if (clock->points[middle].stamp <= stamp)
      from = middle + 1;
    else
      to = middle;
  }
  if (from == 0 || from == clock->count)
    return from ? clock->points[from - 1].taken_ns : 0;
  const struct program_clock_point *before = &clock->points[from - 1], *after = before + 1;
  double share = (double)(stamp - before->stamp) / (double)(after->stamp - before->stamp);
  return before->taken_ns + share * (after->taken_ns - before->taken_ns);
}
