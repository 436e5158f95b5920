/* SPDX-License-Identifier: MIT */
/* Any events that are written are read back the same, with inherited stamps filled in, and so are the touched OS pages
   at the end: random events of random threads, in blocks of random length, aligned and not, with and without the
   optional columns, as recorded and in the archive's form. */
#include "core/test/generate.h"
#include "core/test/trace_file.h"

enum { THREADS = 5, EVENTS = 3000 };

static struct trace_event written[THREADS][EVENTS];

static void fill_stamps(struct trace_event *events, int count) {
  uint64_t stamp = 0;
  for (int i = 0; i < count; i++) {
    if (events[i].release_stamp)
      stamp = events[i].release_stamp;
    events[i].release_stamp = stamp;
    if (trace_event_steps(&events[i]) == 2 && events[i].acquire_stamp)
      stamp = events[i].acquire_stamp;
    events[i].acquire_stamp = stamp;
  }
}

static int compare_touched(void *context, uint64_t address, struct touched touched) {
  uint32_t *row = context;
  CHECK(address == 0x7000ull * (7 - *row) && touched.os_pages == 1000 * *row && touched.parts == 5 * *row,
        "TOUCHED row %u: %lx %u %x", *row, address, touched.os_pages, touched.parts);
  ++*row;
  return 0;
}

static void round_trip(uint64_t seed) {
  uint64_t random = seed;
  int counts[THREADS] = {0}, total = 0;
  struct trace_writer_options options = {
      .zstd_level = 1, .block_events = 1 + (uint32_t)test_below(&random, 1500), .archive = seed % 2 == 0};
  struct trace_writer *writer = begin(&options, "");
  for (uint32_t node = 1; node <= 50; node++)
    CHECK(trace_writer_stack_node(writer, node / 2, node) == node, "node %u", node);
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    struct generator g = {.random = split_mix_next(&random),
                          .stamp = test_below(&random, 1u << 30),
                          .aligned = thread % 2,
                          .stamp_every = 1 + (uint32_t)test_below(&random, 30),
                          .stack_nodes = thread % 3 ? 0 : 50};
    counts[thread] = 1 + (int)test_below(&random, EVENTS);
    for (int i = 0; i < counts[thread]; i++) {
      written[thread][i] = generate_event(&g);
      CHECK(trace_writer_event(writer, thread, &written[thread][i]) == 0, "event %d", i);
    }
    if (thread == 2)
      CHECK(trace_writer_gap(writer, thread, 7, "test") == 0, "gap");
    fill_stamps(written[thread], counts[thread]);
    total += counts[thread];
  }
  for (uint32_t row = 0; row < 5; row++)
    CHECK(trace_writer_touched(writer, 0x7000ull * (7 - row), (struct touched){1000 * row, 5 * row}) == 0, "touched");

  struct trace_reader *reader = end(writer);
  const struct trace_summary *summary = trace_reader_summary(reader);
  CHECK(summary->events == (uint64_t)total && summary->dropped == 7 && summary->threads == THREADS &&
            !summary->truncated && summary->stack_nodes == 50,
        "summary differs");
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    struct trace_cursor *cursor = open_cursor(reader, thread);
    struct trace_event event;
    for (int i = 0; i < counts[thread]; i++) {
      CHECK(trace_cursor_next(cursor, &event) == 1, "seed %lu thread %u event %d: %s", seed, thread, i, error.text);
      CHECK(memcmp(&event, &written[thread][i], sizeof event) == 0, "seed %lu thread %u event %d, call %02x differs",
            seed, thread, i, event.call);
    }
    CHECK(trace_cursor_next(cursor, &event) == 0, "more events than written: %s", error.text);
    trace_cursor_close(cursor);
  }
  uint32_t rows = 0;
  CHECK(trace_reader_touched(reader, compare_touched, &rows, &error) == 0 && rows == 5, "%u rows: %s", rows,
        error.text);
  trace_reader_close(reader);
}

int main(void) {
  make_file();
  for (uint64_t seed = 1; seed <= 40; seed++)
    round_trip(seed);
  return 0;
}
