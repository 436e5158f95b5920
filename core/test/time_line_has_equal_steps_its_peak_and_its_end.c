/* SPDX-License-Identifier: MIT */
/* Claim: a time line has a point at each multiple of the smallest interval with which they fit, whatever number of ops
   comes, one at the highest live bytes, and one at the end. */
#include "core/test/check.h"
#include "core/workload/statistics.h"

/* Live bytes before an op: rises to `peak`, then falls. */
static uint64_t bytes_at(uint64_t position, uint64_t peak) {
  return (1u << 20) + (position <= peak ? position : 2 * peak - position);
}

static void try_line(uint64_t ops, uint64_t peak, uint64_t interval) {
  static struct time_line line;
  line = (struct time_line){.interval = interval};
  for (uint64_t position = 0; position < ops; position++)
    time_line_op(&line, &(struct workload_time_point){position, 2 * position, bytes_at(position, peak), position + 7});
  size_t count;
  const struct workload_time_point *points =
      time_line_finish(&line, &(struct workload_time_point){ops, 2 * ops, 5, ops + 7}, &count);
  while ((ops + interval - 1) / interval > TIME_LINE_POINTS)
    interval *= 2;
  size_t at = 0;
  for (uint64_t position = 0; position < ops; position++)
    if (position % interval == 0 || position == peak) {
      CHECK(at < count && points[at].position == position, "%lu ops, peak %lu: point %zu is not at %lu", ops, peak, at,
            position);
      CHECK(points[at].time_ns == 2 * position && points[at].live_bytes == bytes_at(position, peak) &&
                points[at].live_objects == position + 7,
            "%lu ops, peak %lu: the state at %lu", ops, peak, position);
      at++;
    }
  CHECK(at + 1 == count && points[at].position == ops && points[at].live_bytes == 5, "%lu ops: %zu of %zu points", ops,
        at + 1, count);
}

int main(void) {
  static const uint64_t numbers[] = {0, 1, 2, 3, 4095, 4096, 4097, 4098, 8191, 8192, 8193, 16385, 100000};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    for (uint64_t interval = 1; interval <= 3; interval++)
      for (uint64_t part = 0; part <= 5; part++)
        try_line(numbers[i], numbers[i] ? (numbers[i] - 1) * part / 5 : 0, interval);
  return 0;
}
