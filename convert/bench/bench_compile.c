/* SPDX-License-Identifier: MIT */
/* Rates of compile, check and info's pass, and compile's peak memory, on a synthetic trace (generate_trace.h).

   bench_compile [EVENTS [THREADS [LIVE_OBJECTS [RUN]]]], default 20,000,000, 4, 200,000 and 16. Prints one line per
   figure. */
#include "convert/bench/generate_trace.h"
#include "convert/compile/compile.h"
#include "core/base/os.h"
#include "core/workload/witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void report(const char *what, uint64_t events, uint64_t began_ns) {
  double seconds = (double)(os_monotonic_ns() - began_ns) / 1e9;
  printf("%s: %.1f million events/s (%.1f ns per event)\n", what, (double)events / seconds / 1e6,
         seconds * 1e9 / (double)events);
}

int main(int argc, char **argv) {
  struct generated_trace shape = generated_trace_shape(argc - 1, argv + 1);
  uint64_t events = shape.events;
  uint32_t threads = shape.threads;
  char tape[] = "bench-XXXXXX.tape", work[] = "bench-XXXXXX.work";
  int tape_fd = mkstemps(tape, 5), work_fd = mkstemps(work, 5);
  struct error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  struct history_options options = {.horizon_ns = -1};
  if (tape_fd < 0 || work_fd < 0 || generate_trace(tape, &shape, &error) != 0 ||
      trace_reader_open(&reader, tape, &error) != 0) {
    fprintf(stderr, "bench_compile: %s\n", error.text);
    return 1;
  }
  struct stat status;
  fstat(tape_fd, &status);
  printf("trace: %" PRIu64 " events, %" PRIu32 " threads, %.2f bytes per event\n", events, threads,
         (double)status.st_size / (double)events);
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  long before_kib = usage.ru_maxrss;
  uint64_t began_ns = os_monotonic_ns();
  struct trace_cursor *cursor;
  struct trace_event event;
  for (uint32_t i = 0; i < threads; i++) {
    if (trace_cursor_open(&cursor, reader, i, &error) != 0)
      return 1;
    while (trace_cursor_next(cursor, &event) > 0)
      ;
    trace_cursor_close(cursor);
  }
  report("read only", events, began_ns);
  began_ns = os_monotonic_ns();
  int result = history_run(reader, &options, NULL, &witness, &error);
  report("check", events, began_ns);
  began_ns = os_monotonic_ns();
  if (result == 0)
    result = compile_trace(reader, &(struct compile_outputs){.workload = work}, &options, &witness, &error);
  report("compile", events, began_ns);
  getrusage(RUSAGE_SELF, &usage);
  printf("peak live objects: %" PRIu64 ", ok: %d, peak RSS: %ld MiB (before: %ld)\n", witness.peak_live_objects,
         witness_ok(&witness), usage.ru_maxrss / 1024, before_kib / 1024);
  fstat(work_fd, &status);
  printf("workload: %.2f bytes per op\n", (double)status.st_size / (double)witness.ops);
  unlink(tape);
  unlink(work);
  trace_reader_close(reader);
  if (result != 0)
    fprintf(stderr, "bench_compile: %s\n", error.text);
  return result == 0 ? 0 : 1;
}
