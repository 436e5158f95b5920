/* SPDX-License-Identifier: MIT */
#include "replay/engine/pace.h"

#include "core/base/os.h"

static struct {
  double speed;
  uint64_t first_ns; /* recorded time of the first op */
  uint64_t begin_ns;
} pace;

/* The recorded times of the first op and the last. */
static void recorded_span(uint64_t *first_ns, uint64_t *last_ns) {
  struct workload_stream line;
  uint64_t buffer[512], word, words = 0;
  *first_ns = *last_ns = 0;
  workload_stream_open_buffered(&line, &engine.workload, engine.workload.header.threads + 1, buffer,
                                sizeof buffer / sizeof *buffer);
  /* Groups of position, time, live bytes, live objects. */
  for (; workload_stream_next(&line, &word); words++) {
    if (words % 4 == 1)
      *last_ns = word;
    if (words == 1)
      *first_ns = word;
  }
}

bool pace_times_known(void) {
  uint64_t first_ns, last_ns;
  recorded_span(&first_ns, &last_ns);
  return last_ns > 0;
}

int pace_setup(double speed) {
  uint64_t last_ns;
  recorded_span(&pace.first_ns, &last_ns);
  pace.speed = speed;
  return last_ns > 0 ? 0 : -1;
}

void pace_begin(void) {
  pace.begin_ns = os_monotonic_ns();
}

void pace_wait(struct replay_thread *self, uint64_t time_ns) {
  double after_ns = time_ns > pace.first_ns ? (double)(time_ns - pace.first_ns) / pace.speed : 0;
  uint64_t due_ns = pace.begin_ns + (uint64_t)after_ns, now_ns = os_monotonic_ns();
  struct worker *worker = self->worker;
  if (now_ns < due_ns) {
    atomic_fetch_add(&engine.result->pacing_threads, 1);
    os_sleep_until_ns(due_ns);
    atomic_fetch_sub(&engine.result->pacing_threads, 1);
    now_ns = os_monotonic_ns();
    worker->pace.sleeps++;
  }
  uint64_t late_ns = now_ns - due_ns;
  worker->pace.times++;
  worker->pace.late_ns += late_ns;
  worker->pace.late_max_ns = late_ns > worker->pace.late_max_ns ? late_ns : worker->pace.late_max_ns;
}
