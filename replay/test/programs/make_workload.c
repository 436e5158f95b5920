/* SPDX-License-Identifier: MIT */
/* Writes a generated workload and prints its contents as JSON. For the engine's tests, and for manual trials.
   make_workload OUT.work NAME=VALUE...: the members of struct shape. */
#include "replay/test/programs/generate.h"

#include "core/test/usual.h"
#include "core/trace/event.h"

static int set(struct shape *shape, const char *argument) {
  const char *value = strchr(argument, '=');
  if (!value)
    return -1;
  size_t length = (size_t)(value++ - argument);
  uint64_t number = strtoull(value, NULL, 0);
#define MEMBER(name)                                                                                                   \
  if (strncmp(argument, #name, length) == 0 && strlen(#name) == length)                                                \
    return shape->name = (__typeof__(shape->name))number, 0;
  MEMBER(ops)
  MEMBER(threads)
  MEMBER(threads_live)
  MEMBER(live_objects)
  MEMBER(size_limit)
  MEMBER(remote_percent)
  MEMBER(run_ops)
  MEMBER(only_malloc_free)
  MEMBER(steady)
  MEMBER(free_all)
  MEMBER(gap_ns)
  MEMBER(seed)
#undef MEMBER
  return -1;
}

int main(int count, char **arguments) {
  struct shape shape = {
      .ops = 100000, .threads = 1, .live_objects = 1000, .size_limit = 4096, .run_ops = 20, .seed = 1};
  for (int index = 2; index < count; index++) {
    if (set(&shape, arguments[index]) != 0)
      count = 0;
  }
  if (count < 2) {
    fputs("usage: make_workload OUT.work NAME=VALUE...\n", stderr);
    return 2;
  }
  struct generated made = generate_workload(arguments[1], &shape);
  printf("{\"ops\": %" PRIu64 ", \"live_end_bytes\": %" PRIu64 ", \"live_end_objects\": %" PRIu64
         ", \"peak_live_bytes\": %" PRIu64 ", \"calls\": {",
         made.ops, made.live_end_bytes, made.live_end_objects, made.peak_live_bytes);
  const char *comma = "";
  for (int id = 0; id < CALL_LIMIT; id++) {
    if (made.calls[id] > 0) {
      printf("%s\"%s\": %" PRIu64, comma, call_table[id].name, made.calls[id]);
      comma = ", ";
    }
  }
  puts("}}");
  return 0;
}
