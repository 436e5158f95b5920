/* SPDX-License-Identifier: MIT */
/* The time in which no thread ran is found from samples at any distance, where the kernel adds to a running thread's
   time at its ticks alone. */
#include "convert/history/trace_info.h"
#include "core/test/check.h"
#include "core/trace/write/trace_write.h"

#include <stdlib.h>
#include <unistd.h>

enum { LENGTH_MS = 2000 };

/* What a program does at that time: how many threads run, and how many wait for a processor. */
struct activity {
  const char *name;
  unsigned running, waiting, period_ms, of_each_ms; /* of each period; the rest of it asleep */
  double asleep;                                    /* the share to be found */
  double hidden; /* of it, at most: what threads at once have run by a tick is as long as a sleep before it */
};

static const struct activity activities[] = {
    {"computes", 1, 0, 1, 1, 0, 0},
    {"sleeps", 0, 0, 1, 0, 1, 0},
    {"half of each 100 ms", 1, 0, 100, 50, 0.5, 0},
    {"a tenth of each second", 1, 0, 1000, 100, 0.9, 0},
    {"four threads, half of each 200 ms", 4, 0, 200, 100, 0.5, 0.2},
    {"starves", 0, 1, 1, 1, 0, 0},
};

/* The samples of such a program, at that distance; ticks of tick_us after which the kernel tells what ran. */
static void write_samples(const char *path, const struct activity *activity, uint64_t sample_us, uint64_t tick_us) {
  struct trace_writer *writer;
  struct error error = {0};
  struct trace_writer_options options = {0};
  CHECK(trace_writer_open(&writer, path, "{\"clock\":{\"kind\":\"nanoseconds\",\"hz\":1e9}}", &options, &error) == 0,
        "%s", error.text);
  uint64_t ran_ns = 0, told_ns = 0, queued_ns = 0;
  for (uint64_t us = 0; us <= LENGTH_MS * 1000; us += 100) {
    bool works = us / 1000 % activity->period_ms < activity->of_each_ms;
    if (us % tick_us == 0 || !works) /* also where a thread gives its processor up */
      told_ns = ran_ns;
    struct trace_sample sample = {.stamp = us * 1000, .user_ns = told_ns, .queued_ns = queued_ns};
    if (us % sample_us == 0)
      CHECK(trace_writer_sample(writer, &sample) == 0, "sample");
    ran_ns += works ? activity->running * 100000 : 0;
    queued_ns += works ? activity->waiting * 100000 : 0;
  }
  CHECK(trace_writer_close(writer, "exit", 1e9, &error) == 0, "%s", error.text);
}

static double asleep(const char *path) {
  struct trace_reader *reader;
  struct error error = {0};
  struct recorded_samples samples;
  CHECK(trace_reader_open(&reader, path, &error) == 0, "%s", error.text);
  CHECK(recorded_samples_load(&samples, reader, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  return samples.asleep_ns / samples.asleep_of_ns;
}

int main(void) {
  static const uint64_t sample_us[] = {700, 1200, 4000, 10000}, tick_us[] = {100, 1000, 4000, 10000};
  char path[] = "asleep-XXXXXX.tape";
  close(mkstemps(path, 5));
  for (size_t a = 0; a < sizeof activities / sizeof *activities; a++)
    for (size_t s = 0; s < 4; s++)
      for (size_t t = 0; t < 4; t++) {
        write_samples(path, &activities[a], sample_us[s], tick_us[t]);
        double found = asleep(path);
        double most = activities[a].asleep + 0.02, least = activities[a].asleep - activities[a].hidden - 0.02;
        CHECK(found > least && found < most, "%s, samples at %lu us, ticks of %lu us: %.3f", activities[a].name,
              sample_us[s], tick_us[t], found);
      }
  unlink(path);
  return 0;
}
