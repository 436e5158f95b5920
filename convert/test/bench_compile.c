/* Rates of compile, check and info's pass, and compile's peak memory, on a synthetic trace: threads share a set of live
   objects, free mostly young ones whoever made them, and reuse addresses by size; sizes are skewed. Every event is
   stamped and runs of one thread are short: harder than a real program.

   bench_compile [EVENTS [THREADS [LIVE_OBJECTS [RUN]]]], default 20,000,000, 4, 200,000 and 16 (mean events of a thread
   in a row). Prints one line per figure. */
#include "convert/compile.h"
#include "convert/witness_json.h"
#include "trace/os.h"
#include "trace/trace_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_CLASSES = 64 };

struct object {
  uint64_t address;
  uint32_t class;
};

struct generator {
  uint64_t random, next_address;
  struct object *live; /* all threads', in turns */
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

static int generate(const char *path, uint64_t events, uint32_t threads, uint64_t live_limit, uint32_t run,
                    struct trace_error *error) {
  struct generator generator = {.random = 88172645463325252u, .next_address = 0x555500000000};
  struct trace_writer *writer;
  generator.live = malloc(live_limit * sizeof *generator.live);
  for (int i = 0; i < SIZE_CLASSES; i++)
    generator.free_lists[i] = malloc(live_limit * sizeof **generator.free_lists);
  if (trace_writer_open(&writer, path,
                        "{\"clock\": {\"kind\": \"tsc\", \"hz\": 2e9, \"origin_stamp\": 1}, \"order\": \"tags\"}", NULL,
                        error) != 0)
    return -1;
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
    }
    /* All threads share the free lists here, so that every event may depend on another thread's: each is stamped. */
    event.acquire_stamp = event.release_stamp = stamp;
    if (trace_writer_event(writer, thread, &event) != 0)
      break;
  }
  for (int i = 0; i < SIZE_CLASSES; i++)
    free(generator.free_lists[i]);
  free(generator.live);
  return trace_writer_close(writer, "exit", 0, error);
}

static void report(const char *what, uint64_t events, uint64_t began_ns) {
  double seconds = (double)(os_monotonic_ns() - began_ns) / 1e9;
  printf("%s: %.1f million events/s (%.1f ns per event)\n", what, (double)events / seconds / 1e6,
         seconds * 1e9 / (double)events);
}

int main(int argc, char **argv) {
  uint64_t events = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000000;
  uint32_t threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 4;
  uint64_t live = argc > 3 ? strtoull(argv[3], NULL, 10) : 200000;
  uint32_t run = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 16;
  char tape[] = "bench-XXXXXX.tape", work[] = "bench-XXXXXX.work";
  int tape_fd = mkstemps(tape, 5), work_fd = mkstemps(work, 5);
  struct trace_error error = {""};
  struct trace_reader *reader = NULL;
  struct witness witness;
  struct history_options options = {.horizon_ns = -1};
  if (tape_fd < 0 || work_fd < 0 || generate(tape, events, threads, live, run, &error) != 0 ||
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
    result = compile_trace(reader, work, &options, &witness, &error);
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
