/* SPDX-License-Identifier: MIT */
/* A bare run's bursts and sleeps, recorded: bursts take longer by the recorder's work, by waits for it and by waits for
   a processor, as the samples tell, at any distance, with late ticks and waits that are told when they end. Program
   time is that of the bare run at each burst's end, whatever it was stretched by. */
#include "convert/history/trace_info.h"
#include "core/test/check.h"
#include "core/trace/write/trace_write.h"

#include <math.h>

enum { STEP_US = 100, CALL_NS = 10, BURSTS = 8, PROCESSORS = 2 };

/* What the threads of the program do; each period begins with a burst. Shares are of a dense thread's time in bursts:
   the rest of it runs. Threads beyond the processors wait for each other. */
struct run {
  const char *name;
  uint64_t burst_ms, sleep_ms; /* of the bare run, on a machine with no other load: what a thread runs, and sleeps */
  uint32_t threads;            /* dense ones, at once */
  double recording;            /* of what runs */
  double waited, queued;
};

static const struct run runs[] = {
    {"nothing is taken", 100, 300, 1, 0, 0, 0},
    {"dense bursts, then idle", 100, 500, 1, 0.3, 0.6, 0},
    {"short bursts", 15, 40, 1, 0.4, 0.5, 0.1},
    {"never idle", 200, 0, 1, 0.5, 0.5, 0.3},
    {"three threads at once", 100, 200, 3, 0.3, 0.5, 0.2},
    {"starves in bursts", 100, 300, 1, 0, 0, 0.9},
    {"two threads starve", 100, 300, 2, 0.2, 0.2, 0.6},
    {"four threads on two processors", 100, 300, 4, 0, 0, 0.5},
    {"four threads on two processors starve", 100, 300, 4, 0, 0, 0.9},
};

/* How long a burst of the run lasts when it is not recorded. */
static double bare_burst_ns(const struct run *run) {
  return (double)run->burst_ms * 1e6 * (run->threads > PROCESSORS ? (double)run->threads / PROCESSORS : 1);
}

static double recorded_burst_ns(const struct run *run) {
  return (double)run->burst_ms * 1e6 / (1 - run->recording) / (1 - run->waited - run->queued);
}

static uint64_t whole(double value) {
  return (uint64_t)(value + 0.5);
}

static void write_samples(const char *path, const struct run *run, uint64_t sample_us, uint64_t tick_us) {
  enum { WAIT_US = 60000 };
  struct trace_writer *writer;
  struct error error = {0};
  struct trace_writer_options options = {0};
  CHECK(trace_writer_open(&writer, path,
                          "{\"clock\":{\"kind\":\"nanoseconds\",\"hz\":1e9},\"call_ns\":10,\"processors\":2}", &options,
                          &error) == 0,
        "%s", error.text);
  double ran_ns = 0, told_ns = 0, queued_ns = 0, waited_ns = 0, queued_told_ns = 0;
  double period_ns = recorded_burst_ns(run) + (double)run->sleep_ms * 1e6, step_ns = STEP_US * 1000 * run->threads;
  for (uint64_t us = 0; (double)us * 1000 <= BURSTS * period_ns; us += STEP_US) {
    bool works = fmod((double)us * 1000, period_ns) < recorded_burst_ns(run);
    if (us % tick_us == 0 || !works)
      told_ns = ran_ns;
    if (us % WAIT_US == 0 || !works)
      queued_told_ns = queued_ns;
    struct trace_sample sample = {.stamp = us * 1000,
                                  .user_ns = whole(told_ns),
                                  .queued_ns = whole(queued_told_ns),
                                  .waited_ns = whole(waited_ns),
                                  .calls = whole(ran_ns * run->recording / CALL_NS),
                                  .active_threads = run->threads};
    if (us % sample_us == 0)
      CHECK(trace_writer_sample(writer, &sample) == 0, "sample");
    ran_ns += works ? step_ns * (1 - run->waited - run->queued) : 0;
    queued_ns += works ? step_ns * run->queued : 0;
    waited_ns += works ? step_ns * run->waited : 0;
  }
  CHECK(trace_writer_close(writer, "exit", 1e9, &error) == 0, "%s", error.text);
}

static void check_run(const char *path, const struct run *run, uint64_t sample_us, uint64_t tick_us) {
  static struct recorded_samples samples;
  struct trace_reader *reader;
  struct error error = {0};
  write_samples(path, run, sample_us, tick_us);
  CHECK(trace_reader_open(&reader, path, &error) == 0, "%s", error.text);
  CHECK(recorded_samples_load(&samples, reader, &error) == 0, "%s", error.text);
  trace_reader_close(reader);
  double bare_ns = 0, recorded_ns = 0, before_ns = 0;
  for (int burst = 0; burst < BURSTS; burst++) {
    recorded_ns += recorded_burst_ns(run);
    bare_ns += bare_burst_ns(run);
    double found_ns = recorded_ns - program_clock_taken_ns(&samples.clock, (uint64_t)recorded_ns);
    double step_ns = 1e6 * (20 + 10) + (double)sample_us * 1e3; /* of the clock, a tick, a sample */
    CHECK(fabs(found_ns - bare_ns) < 0.02 * bare_ns + step_ns,
          "%s, samples at %lu us, ticks of %lu us: %.1f of %.1f ms", run->name, sample_us, tick_us, found_ns / 1e6,
          bare_ns / 1e6);
    CHECK(found_ns > before_ns, "%s: time stands still", run->name);
    before_ns = found_ns;
    recorded_ns += (double)run->sleep_ms * 1e6;
    bare_ns += (double)run->sleep_ms * 1e6;
  }
  double slept_ns = BURSTS * (double)run->sleep_ms * 1e6, asleep_ns = program_clock_asleep(&samples.clock) * bare_ns;
  CHECK(fabs(asleep_ns - slept_ns) < 0.03 * bare_ns + 1e3 * (double)sample_us, "%s: asleep for %.1f of %.1f ms",
        run->name, asleep_ns / 1e6, slept_ns / 1e6);
}

int main(void) {
  static const uint64_t sample_us[] = {700, 1200, 4000, 10000}, tick_us[] = {100, 1000, 4000, 10000};
  char path[] = "clock-XXXXXX.tape";
  close(mkstemps(path, 5));
  for (size_t r = 0; r < sizeof runs / sizeof *runs; r++)
    for (size_t s = 0; s < 4; s++)
      for (size_t t = 0; t < 4; t++)
        check_run(path, &runs[r], sample_us[s], tick_us[t]);
  unlink(path);
  return 0;
}
