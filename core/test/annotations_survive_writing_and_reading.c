/* SPDX-License-Identifier: MIT */
/* Stack nodes, modules, marks and names of threads come back as they were written, each node once, before the events
   that name it; text that is not UTF-8 or too long comes back as valid text; a node that does not exist is refused. */
#include "core/test/trace_file.h"

enum { NODES = 5000 };
static struct trace_stack_node nodes[NODES + 1];
static uint32_t node_count;

static const struct trace_writer_options options = {.block_events = 100};

static void put_event(struct trace_writer *writer, uint64_t i, uint32_t stack) {
  struct trace_event event = {.call = CALL_malloc, .acquired = 64 * i + 64, .acquire_stamp = i + 1, .stack = stack};
  CHECK(trace_writer_event(writer, 0, &event) == 0, "event");
}

static int compare_node(void *context, const struct trace_stack_node *node) {
  const struct trace_stack_node *expected = &nodes[++*(uint32_t *)context];
  CHECK(memcmp(node, expected, sizeof *node) == 0, "node %u: %u %u %lx, expected %u %u %lx", node->node, node->parent,
        node->modules, node->instruction, expected->parent, expected->modules, expected->instruction);
  return 0;
}

static void test_nodes(uint64_t seed) {
  struct trace_writer *writer = begin(&options, "");
  uint32_t modules = 0;
  node_count = 0;
  for (uint64_t i = 0; i < 20000; i++) {
    uint32_t parent = (uint32_t)test_below(&seed, node_count + 1u), node;
    uint64_t instruction = split_mix_next(&seed) >> test_below(&seed, 64);
    if (node_count == NODES || (node_count && test_below(&seed, 2))) {
      uint32_t old = 1 + (uint32_t)test_below(&seed, node_count);
      node = trace_writer_stack_node(writer, nodes[old].parent, nodes[old].instruction);
      CHECK(node == old, "the pair of node %u is node %u", old, node);
    } else {
      node = trace_writer_stack_node(writer, parent, instruction);
      if (node == node_count + 1)
        nodes[++node_count] = (struct trace_stack_node){node, parent, modules, instruction};
    }
    CHECK(node && node <= node_count, "node %u of %u", node, node_count);
    put_event(writer, i, node);
  }
  CHECK(trace_writer_stack_node(writer, node_count + 1, 1) == 0, "a parent that does not exist is accepted");
  struct trace_reader *reader = end(writer);
  uint32_t row = 0;
  CHECK(trace_reader_stacks(reader, compare_node, &row, &error) == 0 && row == node_count, "%u of %u nodes: %s", row,
        node_count, error.text);
  struct trace_cursor *cursor = open_cursor(reader, 0);
  struct trace_event event;
  for (int i = 0; i < 20000; i++)
    CHECK(trace_cursor_next(cursor, &event) == 1 && event.stack, "%s", error.text);
  trace_cursor_close(cursor);
  trace_reader_close(reader);
}

static int compare_module(void *context, const struct trace_module *module) {
  int row = ++*(int *)context;
  CHECK(row <= 2 && module->start == 0x1000 && module->end == 0x3000 && module->bias == 0x800, "module %d", row);
  CHECK(strcmp(module->name, row == 1 ? "a.so" : "b.so") == 0, "module %d is %s", row, module->name);
  CHECK(row == 1 ? strcmp(module->path, "/lib/a.so") == 0 : !module->path, "path of module %d", row);
  CHECK(row == 1 ? !module->build_id : strcmp(module->build_id, "00ff") == 0, "build id of module %d", row);
  return 0;
}

/* A library replaces another: the same frame is another node, after the new module. */
static void test_modules(void) {
  struct trace_writer *writer = begin(&options, "");
  struct trace_module a = {.name = "a.so", .path = "/lib/a.so", .start = 0x1000, .end = 0x3000, .bias = 0x800};
  struct trace_module b = {.name = "b.so", .build_id = "00ff", .start = 0x1000, .end = 0x3000, .bias = 0x800};
  CHECK(trace_writer_module(writer, &a) == 0, "module");
  uint32_t before = trace_writer_stack_node(writer, 0, 0x1234);
  trace_writer_forget_stacks(writer);
  CHECK(trace_writer_module(writer, &b) == 0, "module");
  uint32_t after = trace_writer_stack_node(writer, 0, 0x1234);
  CHECK(before == 1 && after == 2, "nodes %u and %u", before, after);
  put_event(writer, 0, after);
  struct trace_reader *reader = end(writer);
  int rows = 0;
  CHECK(trace_reader_modules(reader, compare_module, &rows, &error) == 0 && rows == 2, "%d rows: %s", rows, error.text);
  nodes[1] = (struct trace_stack_node){1, 0, 1, 0x1234};
  nodes[2] = (struct trace_stack_node){2, 0, 2, 0x1234};
  uint32_t row = 0;
  CHECK(trace_reader_stacks(reader, compare_node, &row, &error) == 0 && row == 2, "%u rows: %s", row, error.text);
  trace_reader_close(reader);
}

static int compare_mark(void *context, const struct trace_mark *mark) {
  int row = (*(int *)context)++;
  CHECK(mark->stamp == 100 + (uint64_t)row && mark->thread == 0, "mark %d", row);
  CHECK(mark->events == (row == 2 ? 7u : 150u), "mark %d after %lu events", row, mark->events);
  const char *texts[] = {"phase \xc3\xa9", "??a?", ""};
  if (row < 3)
    CHECK(strcmp(mark->text, texts[row]) == 0, "mark %d is \"%s\"", row, mark->text);
  else
    CHECK(strlen(mark->text) == 254 && strcmp(mark->text + 252, "\xc3\xa9") == 0, "a long mark of %zu bytes",
          strlen(mark->text));
  return 0;
}

static int compare_name(void *context, uint32_t thread, const char *name) {
  int row = (*(int *)context)++;
  CHECK(thread == (uint32_t)row && strcmp(name, row ? "worker" : "main") == 0, "thread %u is %s", thread, name);
  return 0;
}

static void test_marks(void) {
  struct trace_writer *writer = begin(&options, "");
  for (uint64_t i = 0; i < 150; i++)
    put_event(writer, i, 0);
  char too_long[600] = "";
  for (int i = 0; i < 299; i++)
    strcat(too_long, "\xc3\xa9");
  const char *texts[] = {"phase \xc3\xa9",
                         "\xff\xc0"
                         "a\xe2",
                         "", too_long};
  for (uint64_t i = 0; i < 4; i++)
    trace_writer_mark(writer,
                      &(struct trace_mark){.stamp = 100 + i, .events = i == 2 ? 7 : TRACE_MARK_HERE, .text = texts[i]});
  trace_writer_thread_name(writer, 0, "main");
  trace_writer_thread_name(writer, 1, "worker");
  struct trace_reader *reader = end(writer);
  int rows = 0;
  CHECK(trace_reader_marks(reader, compare_mark, &rows, &error) == 0 && rows == 4, "%d marks: %s", rows, error.text);
  rows = 0;
  CHECK(trace_reader_thread_names(reader, compare_name, &rows, &error) == 0 && rows == 2, "%d names: %s", rows,
        error.text);
  trace_reader_close(reader);
}

static void test_a_missing_node_is_refused(void) {
  struct trace_writer *writer = begin(&options, "");
  put_event(writer, 0, trace_writer_stack_node(writer, 0, 77));
  put_event(writer, 1, 2);
  struct trace_reader *reader = end(writer);
  struct trace_cursor *cursor = open_cursor(reader, 0);
  struct trace_event event;
  CHECK(trace_cursor_next(cursor, &event) == 1 && event.stack == 1, "%s", error.text);
  CHECK(trace_cursor_next(cursor, &event) == -1 && strstr(error.text, "stack that no STACKS block"), "%s", error.text);
  trace_cursor_close(cursor);
  trace_reader_close(reader);
}

int main(void) {
  make_file();
  for (uint64_t seed = 1; seed <= 5; seed++)
    test_nodes(seed);
  test_modules();
  test_marks();
  test_a_missing_node_is_refused();
  return 0;
}
