/* SPDX-License-Identifier: MIT */
/* Writes a random trace with the C writer, and the C reader's output for it as CSV to stdout: the counterpart of
   test_two_readers.py. Usage: write_random_trace SEED EVENTS OUT.tape. Even seeds: any legal events, odd seeds: a small
   allocator with last-in-first-out bins, so that the address predictor is often right. Every third seed: with latency,
   usable size and stacks, whose nodes are written as CSV to OUT.tape.nodes. */
#include "core/test/generate.h"
#include "core/trace/read/trace_read.h"
#include "core/trace/write/trace_write.h"

#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, LIVE = 200, BINS = 512 };

struct bin {
  uint64_t freed[LIVE * 2];
  int count;
};

struct heap {
  struct bin bins[BINS];
  struct {
    uint64_t address, bin;
  } live[LIVE];
  uint64_t top;
};

static uint64_t take(struct heap *heap, uint64_t bin) {
  struct bin *from = &heap->bins[bin];
  if (from->count)
    return from->freed[--from->count];
  heap->top += bin * 16;
  return heap->top - bin * 16;
}

static void give_back(struct heap *heap, int slot) {
  struct bin *to = &heap->bins[heap->live[slot].bin];
  if (to->count < LIVE * 2)
    to->freed[to->count++] = heap->live[slot].address;
  heap->live[slot].address = 0;
}

static struct trace_event heap_event(struct heap *heap, struct generator *g) {
  struct trace_event event = {0};
  int slot = (int)test_below(&g->random, LIVE);
  bool live = heap->live[slot].address != 0;
  event.call = live ? CALL_free : CALL_malloc;
  if (test_below(&g->random, 5) == 0)
    event.call = CALL_realloc | (live ? 0 : CALL_NULL_IN);
  if (live) {
    event.released = heap->live[slot].address;
    give_back(heap, slot);
  }
  if (trace_event_acquires(&event)) {
    event.size_bytes = test_below(&g->random, 600);
    uint64_t bin = (event.size_bytes + 23) >> 4;
    heap->live[slot].bin = bin < 2 ? 2 : bin;
    event.acquired = heap->live[slot].address = take(heap, heap->live[slot].bin);
  }
  event.release_stamp = generate_stamp(g);
  event.acquire_stamp = trace_event_steps(&event) == 2 ? generate_stamp(g) : event.release_stamp;
  if (g->stack_nodes)
    event.stack = trace_event_acquires(&event) ? 1 + (uint32_t)test_below(&g->random, g->stack_nodes) : 0;
  return event;
}

static uint32_t write_nodes(struct trace_writer *writer, uint64_t *random) { // returns the number of the last one
  uint32_t last = 0;
  for (uint32_t i = 0; i < 300; i++) {
    struct trace_module module = {.name = "lib.so", .start = i, .end = i + 7};
    if (i % 100 == 1) {
      trace_writer_forget_stacks(writer);
      CHECK(trace_writer_module(writer, &module) == 0, "module");
    }
    uint32_t parent = (uint32_t)test_below(random, last + 1);
    uint32_t node = trace_writer_stack_node(writer, parent, split_mix_next(random) >> test_below(random, 64));
    CHECK(node, "node %u", i);
    last = node > last ? node : last; // the same frame has the same node
  }
  CHECK(trace_writer_thread_name(writer, 1, "worker") == 0, "name");
  return last;
}

static void write_trace(const char *path, uint64_t seed, int events, const char *clock_hz) {
  static struct heap heaps[THREADS];
  static struct generator generators[THREADS];
  struct error error = {0};
  struct trace_writer *writer;
  uint64_t random = seed;
  struct trace_writer_options options = {.block_events = 1 + (uint32_t)test_below(&random, 1500)};
  char info[100];
  snprintf(info, sizeof info, "{\"clock\":{\"kind\":\"tsc\",\"hz\":%s}}", clock_hz);
  CHECK(trace_writer_open(&writer, path, info, &options, &error) == 0, "%s", error.text);
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    heaps[thread].top = 0x10000000u + thread * 0x1000000000u;
    generators[thread] =
        (struct generator){.random = split_mix_next(&random), .aligned = thread % 2, .stamp_every = 20};
  }
  if (seed % 3 == 0) {
    uint32_t nodes = write_nodes(writer, &random);
    for (uint32_t thread = 0; thread < THREADS; thread++)
      generators[thread].stack_nodes = nodes;
  }
  for (int i = 0; i < events; i++) {
    uint32_t thread = i < THREADS ? (uint32_t)i : (uint32_t)test_below(&random, THREADS);
    struct generator *g = &generators[thread];
    struct trace_event event = seed % 2 ? heap_event(&heaps[thread], g) : generate_event(g);
    CHECK(trace_writer_event(writer, thread, &event) == 0, "event %d", i);
    char text[16];
    snprintf(text, sizeof text, "mark %d", i / 1000);
    if (i % 1000 == 999)
      CHECK(trace_writer_gap(writer, thread, 3, "test") == 0 &&
                trace_writer_mark(writer, &(struct trace_mark){50u * i, TRACE_MARK_HERE, thread, text}) == 0,
            "gap or mark");
  }
  for (uint64_t i = 0; i < 10; i++) {
    struct trace_sample sample = {.stamp = i * 1000,
                                  .rss_anon_bytes = 4096 * (20 - i),
                                  .vm_size_bytes = i << 20,
                                  .queued_ns = i * i * 77,
                                  .reading_ns = i * 3,
                                  .waited_ns = i * 5,
                                  .calls = i};
    sample.user_ns = sample.system_ns = TRACE_SAMPLE_MISSING;
    CHECK(trace_writer_sample(writer, &sample) == 0, "sample");
  }
  CHECK(trace_writer_close(writer, "exit", 0, &error) == 0, "%s", error.text);
}

static int print_node(void *context, const struct trace_stack_node *node) {
  fprintf(context, "%u,%u,%lu,%u\n", node->node, node->parent, node->instruction, node->modules);
  return 0;
}

static void print_nodes(struct trace_reader *reader, const char *path) {
  struct error error = {0};
  char name[4096];
  snprintf(name, sizeof name, "%s.nodes", path);
  FILE *file = fopen(name, "w");
  CHECK(file, "can't write %s", name);
  fprintf(file, "node,parent,instruction,modules\n");
  CHECK(trace_reader_stacks(reader, print_node, file, &error) == 0, "%s", error.text);
  fclose(file);
}

static void print_trace(const char *path) {
  struct error error = {0};
  struct trace_reader *reader;
  CHECK(trace_reader_open(&reader, path, &error) == 0, "%s", error.text);
  printf("thread,call,size,param,released,acquired,release_stamp,acquire_stamp,touched,latency,usable,stack\n");
  print_nodes(reader, path);
  for (uint32_t thread = 0; thread < trace_reader_summary(reader)->threads; thread++) {
    struct trace_cursor *cursor;
    struct trace_event e;
    CHECK(trace_cursor_open(&cursor, reader, thread, &error) == 0, "%s", error.text);
    int more;
    while ((more = trace_cursor_next(cursor, &e)) == 1)
      printf("%u,%u,%lu,%lu,%lu,%lu,%lu,%lu,%u,%lu,%lu,%u\n", thread, e.call, e.size_bytes, e.param, e.released,
             e.acquired, e.release_stamp, e.acquire_stamp, e.touched_os_pages, e.latency, trace_event_usable_bytes(&e),
             e.stack);
    CHECK(more == 0, "%s", error.text);
    trace_cursor_close(cursor);
  }
  trace_reader_close(reader);
}

int main(int argc, char **argv) {
  CHECK(argc == 4 || argc == 5, "usage: write_random_trace SEED EVENTS OUT.tape [HZ]");
  write_trace(argv[3], strtoull(argv[1], NULL, 10), atoi(argv[2]), argc == 5 ? argv[4] : "1e9");
  print_trace(argv[3]);
  return 0;
}
