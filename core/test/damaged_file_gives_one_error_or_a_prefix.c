/* SPDX-License-Identifier: MIT */
/* A trace that is cut anywhere yields its whole blocks and is reported as truncated; a trace with any bytes changed
   yields one error that names the file, or events, and never a crash (build with ASan to see wild reads: make test
   CFLAGS=-fsanitize=address). */
#include "core/test/generate.h"
#include "core/test/trace_file.h"

static uint8_t whole[1 << 20];
static size_t whole_bytes;

static void store(const uint8_t *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  CHECK(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0, "can't write %s", path);
}

static void write_whole(void) {
  struct trace_writer *writer = begin(&(struct trace_writer_options){.block_events = 60}, "");
  struct generator g = {.random = 99, .aligned = true, .stamp_every = 5, .stack_nodes = 9};
  for (uint32_t node = 1; node <= 9; node++)
    trace_writer_stack_node(writer, node / 3, 1000 * node);
  trace_writer_module(writer, &(struct trace_module){.name = "a.so", .start = 1000, .end = 2000});
  for (int i = 0; i < 300; i++) {
    struct trace_event event = generate_event(&g);
    trace_writer_event(writer, 0, &event);
    if (i == 150)
      trace_writer_mark(writer, &(struct trace_mark){.stamp = 7, .events = TRACE_MARK_HERE, .text = "half"});
  }
  trace_writer_thread_name(writer, 0, "main");
  for (int i = 0; i < 3; i++)
    trace_writer_sample(writer, &(struct trace_sample){
                                    .stamp = 5 + (uint64_t)i, .rss_anon_bytes = 4096, .user_ns = TRACE_SAMPLE_MISSING});
  finish(writer);
  FILE *file = fopen(path, "rb");
  whole_bytes = fread(whole, 1, sizeof whole, file);
  fclose(file);
}

static int ignore_sample(void *context, const struct trace_sample *sample) {
  (void)context;
  (void)sample;
  return 0;
}

static int ignore_node(void *context, const struct trace_stack_node *node) {
  CHECK(node->parent < node->node, "parent %u of node %u", node->parent, node->node);
  (void)context;
  return 0;
}
static int ignore_module(void *context, const struct trace_module *module) {
  (void)context;
  return module->name ? 0 : -1;
}
static int ignore_mark(void *context, const struct trace_mark *mark) {
  (void)context;
  return mark->text ? 0 : -1;
}
static int ignore_name(void *context, uint32_t thread, const char *name) {
  (void)context;
  return thread < 1 << 24 && name ? 0 : -1;
}

/* Reads everything; returns events read. *failed: there was an error; it must name the file. */
static uint64_t read_all(bool *failed, bool *truncated) {
  struct trace_reader *reader;
  struct trace_event event;
  uint64_t events = 0;
  error = (struct error){0};
  *truncated = false;
  *failed = trace_reader_open(&reader, path, &error) != 0;
  if (!*failed) {
    *truncated = trace_reader_summary(reader)->truncated;
    for (uint32_t thread = 0; thread < trace_reader_summary(reader)->threads && !*failed; thread++) {
      struct trace_cursor *cursor;
      int got = trace_cursor_open(&cursor, reader, thread, &error);
      while (got == 0 && (got = trace_cursor_next(cursor, &event)) == 1) {
        events++;
        got = 0;
      }
      *failed = error.text[0] != 0;
      trace_cursor_close(cursor);
      if (got == 0 && !*failed)
        continue;
    }
    if (!*failed)
      *failed = trace_reader_samples(reader, ignore_sample, NULL, &error) != 0 ||
                trace_reader_stacks(reader, ignore_node, NULL, &error) != 0 ||
                trace_reader_modules(reader, ignore_module, NULL, &error) != 0 ||
                trace_reader_marks(reader, ignore_mark, NULL, &error) != 0 ||
                trace_reader_thread_names(reader, ignore_name, NULL, &error) != 0;
    trace_reader_close(reader);
  }
  CHECK(*failed == (error.text[0] != 0), "failure and error text disagree");
  CHECK(!*failed || strncmp(error.text, path, strlen(path)) == 0, "error does not name the file: %s", error.text);
  CHECK(!strchr(error.text, '\n'), "more than one line: %s", error.text);
  return events;
}

int main(void) {
  bool failed, truncated;
  make_file();
  write_whole();
  CHECK(read_all(&failed, &truncated) == 300 && !failed && !truncated, "the whole file does not read");
  uint64_t before = 0;
  for (size_t cut = 0; cut < whole_bytes; cut++) {
    store(whole, cut);
    uint64_t events = read_all(&failed, &truncated);
    CHECK(failed || truncated, "cut at %zu is not reported", cut);
    CHECK(events >= before && events % 60 == 0, "cut at %zu reads %lu events", cut, events);
    before = events;
  }
  CHECK(before == 300, "all blocks read before the footer");
  uint64_t random = 1234567, rejected = 0;
  enum { ROUNDS = 6000 };
  for (int round = 0; round < ROUNDS; round++) {
    static uint8_t damaged[sizeof whole];
    memcpy(damaged, whole, whole_bytes);
    for (uint64_t n = 1 + test_below(&random, 3); n > 0; n--)
      damaged[test_below(&random, whole_bytes)] ^= (uint8_t)(1 + test_below(&random, 255));
    store(damaged, whole_bytes);
    read_all(&failed, &truncated);
    rejected += failed;
  }
  CHECK(rejected > ROUNDS * 9 / 10, "only %lu of %d damaged files were rejected", rejected, ROUNDS);
  return 0;
}
