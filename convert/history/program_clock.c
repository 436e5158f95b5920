/* SPDX-License-Identifier: MIT */
#include "convert/history/program_clock.h"

#include <stdbool.h>

static const double FIRST_STEP_NS = 20e6, LONGEST_TICK_NS = 10e6, MOST = 0.98;

void program_clock_begin(struct program_clock *clock, double hz, double call_ns) {
  *clock = (struct program_clock){.hz = hz, .call_ns = call_ns, .step_ns = FIRST_STEP_NS, .at_once = 1};
}

static double least(double one, double other) {
  return one < other ? one : other;
}

/* 0 where a value went back: of threads that have ended. */
static double rise(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) : 0;
}

/* Every second point, and twice as far apart. */
static void thin_out(struct program_clock *clock) {
  for (uint32_t i = 1; i < PROGRAM_CLOCK_POINTS / 2; i++)
    clock->points[i] = clock->points[2 * i];
  clock->count = PROGRAM_CLOCK_POINTS / 2;
  clock->step_ns *= 2;
}

static void put_point(struct program_clock *clock, const struct trace_sample *at, double taken_ns) {
  if (clock->count == PROGRAM_CLOCK_POINTS)
    thin_out(clock);
  clock->points[clock->count++] = (struct program_clock_point){at->stamp, taken_ns};
  clock->last = *at;
}

/* How much of the time since the last point is the recording's; the kernel may tell of up to a tick more than passed.
 */
static double taken_since(struct program_clock *clock, const struct trace_sample *now, double passed_ns) {
  const struct trace_sample *last = &clock->last;
  double ran_ns = rise(last->user_ns + last->system_ns, now->user_ns + now->system_ns);
  double queued_ns = rise(last->queued_ns, now->queued_ns), waited_ns = rise(last->waited_ns, now->waited_ns);
  double recording_ns = clock->call_ns * rise(last->calls, now->calls) + rise(last->reading_ns, now->reading_ns);
  double own = ran_ns > 0 ? 1 - least(recording_ns / ran_ns, 0.5) : 1;
  double active_ns = ran_ns + queued_ns + waited_ns;
  if (active_ns <= 0)
    return 0;
  bool several = active_ns > passed_ns + LONGEST_TICK_NS;
  double at_once = several ? active_ns / passed_ns : clock->at_once; /* the last span of a burst is not full */
  clock->at_once = several ? at_once : 1;
  double taken_ns = (active_ns - (ran_ns + queued_ns) * own) / at_once + clock->carried_ns;
  double now_ns = least(taken_ns, MOST * passed_ns);
  clock->carried_ns = least(taken_ns - now_ns, LONGEST_TICK_NS);
  return now_ns;
}

static bool is_known(const struct trace_sample *sample) {
  return sample->user_ns != TRACE_SAMPLE_MISSING && sample->system_ns != TRACE_SAMPLE_MISSING &&
         sample->queued_ns != TRACE_SAMPLE_MISSING && sample->waited_ns != TRACE_SAMPLE_MISSING &&
         sample->calls != TRACE_SAMPLE_MISSING && sample->reading_ns != TRACE_SAMPLE_MISSING;
}

void program_clock_sample(struct program_clock *clock, const struct trace_sample *sample) {
  const struct trace_sample *last = &clock->last;
  if (clock->hz <= 0 || !is_known(sample))
    return;
  if (!clock->count) {
    put_point(clock, sample, 0);
    return;
  }
  double passed_ns = rise(last->stamp, sample->stamp) * 1e9 / clock->hz;
  bool ran = sample->user_ns + sample->system_ns != last->user_ns + last->system_ns;
  if (passed_ns >= clock->step_ns && ran)
    put_point(clock, sample, clock->points[clock->count - 1].taken_ns + taken_since(clock, sample, passed_ns));
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
