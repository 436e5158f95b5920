/* SPDX-License-Identifier: MIT */
/* Costs of the stages of a pass over a trace: decoding alone, decoding with the merge of threads, and both with the
   history. No pass over the trace is faster than the first two.

   bench_stages F.tape. Prints one line per stage; decoding uses one thread, the other stages two if there are two
   processors. */
#include "convert/history/history.h"
#include "convert/history/merge.h"
#include "core/base/os.h"

#include <stdio.h>

static void report(const char *stage, uint64_t events, uint64_t began_ns) {
  double ns = (double)(os_monotonic_ns() - began_ns) / (double)events;
  printf("%-28s %6.1f ns per event, %5.1f M events/s\n", stage, ns, 1e3 / ns);
}

static int decode(struct trace_reader *reader, struct error *error) {
  static struct trace_event events[256];
  int got = 0;
  for (uint32_t thread = 0; got >= 0 && thread < trace_reader_summary(reader)->threads; thread++) {
    struct trace_cursor *cursor;
    if (trace_cursor_open(&cursor, reader, thread, error) != 0)
      return -1;
    while ((got = trace_cursor_read(cursor, events, sizeof events / sizeof *events)) > 0)
      ;
    trace_cursor_close(cursor);
  }
  return got;
}

static int decode_and_merge(struct trace_reader *reader, struct error *error) {
  struct merge *merge;
  const struct merge_step *step;
  int more;
  if (merge_open(&merge, reader, MERGE_ALL_THREADS, NULL, error) != 0)
    return -1;
  while ((more = merge_peek(merge, &step)) > 0 && (more = merge_advance(merge)) >= 0)
    ;
  merge_close(merge);
  return more;
}

static int check(struct trace_reader *reader, struct error *error) {
  struct history_options options = {.horizon_ns = -1};
  struct witness witness;
  return history_run(reader, &options, NULL, &witness, error);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(struct trace_reader *reader, struct error *error);
  } stages[] = {{"decoding", decode}, {"decoding and merging", decode_and_merge}, {"the same and the history", check}};
  struct error error = {""};
  struct trace_reader *reader;
  if (argc != 2) {
    fputs("usage: bench_stages F.tape\n", stderr);
    return 2;
  }
  if (trace_reader_open(&reader, argv[1], &error) != 0) {
    fprintf(stderr, "bench_stages: %s\n", error.text);
    return 1;
  }
  for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    uint64_t began_ns = os_monotonic_ns();
    if (stages[i].run(reader, &error) < 0) {
      fprintf(stderr, "bench_stages: %s\n", error.text);
      return 1;
    }
    report(stages[i].name, trace_reader_summary(reader)->events, began_ns);
  }
  trace_reader_close(reader);
  return 0;
}
