/* SPDX-License-Identifier: MIT */
/* Wherever memory runs out, for one request or from then on, writing and reading traces and workloads end with an error
   that has a text, or as if it had not run out. */
#include "core/test/failing_memory.h"
#include "core/test/generate.h"
#include "core/test/generate_accesses.h"
#include "core/trace/read/trace_read.h"
#include "core/trace/write/trace_write.h"
#include "core/workload/workload_check.h"
#include "core/workload/workload_ops.h"
#include "core/workload/workload_write.h"

enum { THREADS = 3, EVENTS = 120, OTHERS = 3 };

static long left = -1; /* requests until one fails; -1: none does */
static bool once, archive, failed;

static bool fails(void) {
  bool now = left == 0;
  failed |= now;
  left -= left > 0 || (now && once);
  return now;
}

static int write_trace(const char *path, struct error *error) {
  struct trace_writer *writer;
  struct trace_writer_options options = {.block_events = 50, .archive = archive};
  if (trace_writer_open(&writer, path, "{\"clock\":{\"kind\":\"tsc\",\"hz\":1e9}}", &options, error) != 0) {
    CHECK(!writer);
    return -1;
  }
  bool wrong = false;
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    struct generator g = {.random = 7 + thread, .stamp_every = 3};
    for (int i = 0; i < EVENTS; i++) {
      struct trace_event event = generate_event(&g);
      if (trace_event_acquires(&event))
        event.stack = trace_writer_stack_node(writer, 0, (uint64_t)i);
      wrong |= trace_writer_event(writer, thread, &event) != 0;
    }
  }
  for (uint64_t i = 0; i < OTHERS; i++) {
    wrong |= trace_writer_module(writer, &(struct trace_module){.name = "m", .start = i, .end = i + 1}) != 0;
    wrong |= trace_writer_mark(writer, &(struct trace_mark){i, TRACE_MARK_HERE, 0, "mark"}) != 0;
    wrong |= trace_writer_thread_name(writer, (uint32_t)i, "name") != 0;
    wrong |= trace_writer_sample(writer, &(struct trace_sample){.stamp = i}) != 0;
    wrong |= trace_writer_touched(writer, 4096 * i, (struct touched){1, 0}) != 0;
    wrong |= trace_writer_gap(writer, (uint32_t)i, 1, "gap") != 0;
  }
  int status = trace_writer_close(writer, "exit", 0, error);
  CHECK(!wrong || status != 0, "what an operation told, closing does not");
  return status;
}

static int count_module(void *count, const struct trace_module *module) {
  return *(int *)count += module->end > module->start, 0;
}

static int count_mark(void *count, const struct trace_mark *mark) {
  return *(int *)count += strcmp(mark->text, "mark") == 0, 0;
}

static int count_name(void *count, uint32_t thread, const char *name) {
  return *(int *)count += thread < OTHERS && strcmp(name, "name") == 0, 0;
}

static int count_sample(void *count, const struct trace_sample *sample) {
  return *(int *)count += sample->stamp < OTHERS, 0;
}

static int count_touched(void *count, uint64_t address, struct touched touched) {
  return *(int *)count += address < 4096 * OTHERS && touched.os_pages == 1, 0;
}

static int count_gap(void *count, uint64_t before, uint64_t dropped, const char *why) {
  return *(int *)count += before == EVENTS && dropped == 1 && strcmp(why, "gap") == 0, 0;
}

static int read_threads(struct trace_reader *reader, struct error *error) {
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    struct trace_cursor *cursor;
    struct trace_event event;
    int got, events = 0, gaps = 0;
    if (trace_cursor_open(&cursor, reader, thread, error) != 0)
      return -1;
    while ((got = trace_cursor_next(cursor, &event)) == 1)
      events++;
    trace_cursor_close(cursor);
    if (got != 0 || trace_reader_gaps(reader, thread, count_gap, &gaps, error) != 0)
      return -1;
    CHECK(events == EVENTS && gaps == 1, "thread %u: %d events, %d gaps", thread, events, gaps);
  }
  return 0;
}

static int read_trace(const char *path, struct error *error) {
  struct trace_reader *reader;
  int others = 0;
  if (trace_reader_open(&reader, path, error) != 0)
    return -1;
  int status = read_threads(reader, error) != 0 || trace_reader_modules(reader, count_module, &others, error) != 0 ||
                       trace_reader_marks(reader, count_mark, &others, error) != 0 ||
                       trace_reader_thread_names(reader, count_name, &others, error) != 0 ||
                       trace_reader_samples(reader, count_sample, &others, error) != 0 ||
                       trace_reader_touched(reader, count_touched, &others, error) != 0
                   ? -1
                   : 0;
  CHECK(status != 0 || others == 5 * OTHERS, "%d others", others);
  trace_reader_close(reader);
  return status;
}

/* Bursts begin and end, in several blocks. */
static int write_accesses(const char *path, struct error *error) {
  struct trace_writer *writer;
  struct trace_writer_options options = {.archive = archive};
  const char *info =
      "{\"clock\":{\"kind\":\"tsc\",\"hz\":1e9},\"accesses\":{\"granule_bytes\":16,\"filter_bytes\":4096}}";
  if (trace_writer_open(&writer, path, info, &options, error) != 0)
    return -1;
  bool wrong = false;
  struct access_generator g = {.random = 9, .call_every = 3, .spread = 50};
  for (int i = 0; i < EVENTS; i++) {
    struct access_item item = generate_access(&g), burst = {.kind = ACCESS_BURST, .value = i % 2 == 0};
    wrong |= trace_writer_access(writer, &burst) != 0;
    if (i % 2 == 0 || item.kind == ACCESS_EVENT)
      wrong |= trace_writer_access(writer, &item) != 0;
    wrong |= i % 50 == 49 && trace_writer_flush(writer) != 0;
  }
  int status = trace_writer_close(writer, "exit", 0, error);
  CHECK(!wrong || status != 0, "what an operation told, closing does not");
  return status;
}

static int read_accesses(const char *path, struct error *error) {
  struct trace_reader *reader;
  struct trace_access_cursor *cursor = NULL;
  struct access_item item;
  int got = 0, items = 0, status = trace_reader_open(&reader, path, error);
  if (status != 0)
    return -1;
  status = trace_access_cursor_open(&cursor, reader, error);
  while (status == 0 && (got = trace_access_cursor_next(cursor, &item)) == 1)
    items++;
  if (status == 0)
    trace_access_cursor_close(cursor);
  trace_reader_close(reader);
  CHECK(status != 0 || got != 0 || items > EVENTS + EVENTS / 2, "%d items", items);
  return status != 0 || got != 0 ? -1 : 0;
}

static int write_workload(const char *path, struct error *error) {
  struct workload_writer *writer;
  if (workload_writer_open(&writer, path, error) != 0) {
    CHECK(!writer);
    return -1;
  }
  bool wrong = false;
  for (uint32_t i = 0; i < EVENTS && !wrong; i++) {
    wrong = workload_begin_op(writer, i % THREADS) != 0;
    if (!wrong)
      workload_put_op(writer, i % THREADS, &(struct workload_op){.call = CALL_malloc, .slot = i, .size_bytes = 8});
  }
  const struct workload_time_point points[] = {{0, 0, 0, 0}, {EVENTS, 8 * EVENTS, 0, EVENTS}};
  const struct workload_totals totals = {.slots = EVENTS,
                                         .peak_live_bytes = 8 * EVENTS,
                                         .peak_live_objects = EVENTS,
                                         .live_at_end = EVENTS,
                                         .peak_position = EVENTS};
  int status = workload_writer_close(writer, &totals, (struct workload_time_points){points, 2}, "{}", error);
  CHECK(!wrong || status != 0, "what an operation told, closing does not");
  return status;
}

static int read_workload(const char *path, struct error *error) {
  struct workload workload;
  struct workload_ops ops;
  struct workload_proof proof;
  if (workload_open(&workload, path, error) != 0)
    return -1;
  int got = 0, read = 0, status = workload_ops_open(&ops, &workload, error);
  while (status == 0 && (got = workload_ops_next(&ops, error)) == 1)
    read++;
  workload_ops_close(&ops);
  CHECK(status != 0 || got != 0 || read == EVENTS, "%d ops", read);
  if (status == 0 && got == 0)
    status = workload_check(&workload, &proof, error);
  workload_close(&workload);
  return status != 0 || got != 0 ? -1 : 0;
}

typedef int scenario(const char *path, struct error *error);

/* check: of what was made, with memory; NULL: nothing was. */
static void starve(scenario *tried, scenario *check, const char *path, const char *what) {
  int errors = 0;
  for (long number = 0;; number++) {
    struct error error = {0}, other = {0};
    left = number;
    failed = false;
    int status = tried(path, &error);
    left = -1;
    CHECK(status == 0 || (status == -1 && failed && error.text[0]), "%s, request %ld: %d, \"%s\"", what, number, status,
          error.text);
    CHECK(status != 0 || !check || check(path, &other) == 0, "%s, request %ld, %d: %s", what, number, failed,
          other.text);
    errors += status != 0;
    if (!failed)
      break;
  }
  CHECK(errors > 2, "%s: %d errors", what, errors);
}

int main(void) {
  char path[] = "/tmp/heaptape-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0, "mkstemp");
  close(fd);
  for (int kind = 0; kind < 4; kind++) {
    once = kind % 2;
    archive = kind / 2;
    starve(write_trace, read_trace, path, "writing a trace");
    starve(read_trace, NULL, path, "reading a trace");
    starve(write_accesses, read_accesses, path, "writing accesses");
    starve(read_accesses, NULL, path, "reading accesses");
    starve(write_workload, read_workload, path, "writing a workload");
    starve(read_workload, NULL, path, "reading a workload");
  }
  unlink(path);
  return 0;
}
