/* SPDX-License-Identifier: MIT */
/* Writes a synthetic trace for other programs: bench_trace F.tape [EVENTS [THREADS [LIVE_OBJECTS [RUN [SITES]]]]],
   default 20,000,000, 4, 200,000, 16 and 0. Threads share a set of live objects, free mostly young ones regardless of
   the thread that made them, and reuse addresses by size; sizes are skewed. Every event is stamped and runs of one
   thread are short: this is harder than a real program. */
#include "core/trace/write/trace_write.h"

#include <stdio.h>
#include <stdlib.h>

enum { SIZE_CLASSES = 64 };

struct object {
  uint64_t address;
  uint32_t class;
};

struct generator {
  uint64_t random, next_address;
  struct object *live; /* of all threads, interleaved */
  uint64_t live_count;
  uint64_t *free_lists[SIZE_CLASSES];
  uint64_t free_count[SIZE_CLASSES];
};

static uint64_t next_random(struct generator *generator) {
  generator->random ^= generator->random << 13;
  generator->random ^= generator->random >> 7;
  generator->random ^= generator->random << 17;
  return generator->random;
}

static uint32_t random_class(struct generator *generator) {
  uint64_t random = next_random(generator);
  return (uint32_t)(__builtin_ctzll(random | 1ull << 20) * 3 + (random >> 32) % 4);
}

static struct trace_event allocate(struct generator *generator, struct object *object) {
  uint32_t class = random_class(generator);
  object->class = class;
  if (generator->free_count[class]) {
    object->address = generator->free_lists[class][--generator->free_count[class]];
  } else {
    object->address = generator->next_address;
    generator->next_address += 16 * (class + 2);
  }
  return (struct trace_event){
      .acquired = object->address, .size_bytes = 16 * class + 8 + generator->random % 16, .call = CALL_malloc};
}

static struct trace_event release(struct generator *generator, const struct object *object) {
  generator->free_lists[object->class][generator->free_count[object->class]++] = object->address;
  return (struct trace_event){.released = object->address, .call = CALL_free};
}

/* Makes the stacks of a program with that many sites: site n is called from site n / 8, and so on up to the main
   function. */
static uint32_t *make_stacks(struct trace_writer *writer, uint32_t sites) {
  uint32_t *nodes = calloc(sites + 1ull, sizeof *nodes);
  for (uint32_t site = 1; nodes && site <= sites; site++)
    nodes[site] = trace_writer_stack_node(writer, nodes[site / 8], 0x400000 + 16ull * site);
  return nodes;
}

struct shape {
  uint64_t events, threads, live_objects;
  uint64_t run;   /* mean number of consecutive events of a thread */
  uint64_t sites; /* call stacks; 0: none are recorded */
};

static int generate_trace(const char *path, const struct shape *shape, struct error *error) {
  uint64_t events = shape->events, live_limit = shape->live_objects;
  uint64_t threads = shape->threads, run = shape->run;
  struct generator generator = {.random = 88172645463325252u, .next_address = 0x555500000000};
  struct trace_writer *writer;
  generator.live = malloc(live_limit * sizeof *generator.live);
  for (int i = 0; i < SIZE_CLASSES; i++)
    generator.free_lists[i] = malloc(live_limit * sizeof **generator.free_lists);
  if (trace_writer_open(&writer, path,
                        "{\"clock\": {\"kind\": \"tsc\", \"hz\": 2e9, \"origin_stamp\": 1}, \"order\": \"tags\"}", NULL,
                        error) != 0)
    return -1;
  uint32_t *stacks = make_stacks(writer, (uint32_t)shape->sites);
  uint32_t thread = 0;
  for (uint64_t i = 0, stamp = 1; i < events; i++, stamp += 50) {
    if (i < threads || next_random(&generator) % run == 0)
      thread = (uint32_t)(i < threads ? i : next_random(&generator) % threads);
    struct trace_event event;
    bool frees = generator.live_count == live_limit ||
                 (generator.live_count && i >= threads && next_random(&generator) % 1000 < 480);
    if (frees) {
      uint64_t victim = next_random(&generator) % 8
                            ? generator.live_count - 1 -
                                  next_random(&generator) % (generator.live_count < 64 ? generator.live_count : 64)
                            : next_random(&generator) % generator.live_count;
      event = release(&generator, &generator.live[victim]);
      generator.live[victim] = generator.live[--generator.live_count];
    } else {
      event = allocate(&generator, &generator.live[generator.live_count++]);
      /* Sites differ in call frequency, and each has mostly its own sizes. */
      if (shape->sites)
        event.stack = stacks[1 + (event.size_bytes * 2654435761u + __builtin_ctzll(generator.random | 1ull << 40)) %
                                     shape->sites];
    }
    /* All threads share the free lists here, so every event may depend on one of another thread: each is stamped. */
    event.acquire_stamp = event.release_stamp = stamp;
    if (trace_writer_event(writer, thread, &event) != 0)
      break;
  }
  for (int i = 0; i < SIZE_CLASSES; i++)
    free(generator.free_lists[i]);
  free(generator.live);
  free(stacks);
  return trace_writer_close(writer, "exit", 0, error);
}

int main(int argc, char **argv) {
  struct shape shape = {20000000, 4, 200000, 16, 0};
  uint64_t *const numbers[] = {&shape.events, &shape.threads, &shape.live_objects, &shape.run, &shape.sites};
  struct error error = {0};
  if (argc < 2) {
    fprintf(stderr, "usage: bench_trace F.tape [EVENTS [THREADS [LIVE_OBJECTS [RUN [SITES]]]]]\n");
    return 2;
  }
  for (int i = 2; i < argc && i < 7; i++)
    *numbers[i - 2] = strtoull(argv[i], NULL, 10);
  if (generate_trace(argv[1], &shape, &error) != 0) {
    fprintf(stderr, "bench_trace: %s\n", error.text);
    return 1;
  }
  return 0;
}
