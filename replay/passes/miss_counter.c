/* SPDX-License-Identifier: MIT */
#include "replay/passes/miss_counter.h"

#include <inttypes.h>

int miss_counter_begin(struct miss_counter *counter, const struct miss_request *request, const char *workload,
                       struct error *error) {
  char why[sizeof error->text - 128];
  if (!request->accesses)
    return error_set(error, workload, "the misses pass simulates recorded accesses, but none were given");
  if (valgrind_find(&counter->command.valgrind, why, sizeof why) != 0)
    return error_set(error, workload, "misses can't be counted here: %s", why);
  if (access_stream_check(&counter->stream, request->accesses, request->ops, request->slots, error) != 0)
    return -1;
  struct valgrind_command *command = &counter->command;
  if (valgrind_command_open(command, error) != 0)
    return -1;
  valgrind_command_threads(command, request->threads);
  valgrind_command_add(command, "--tool=heaptape");
  valgrind_command_add(command, "--mode=replay");
  valgrind_command_add(command, "--out-file=%s", command->output);
  valgrind_command_add(command, "--accesses=%s", request->accesses);
  if (request->caches)
    valgrind_command_add(command, "--caches=%s", request->caches);
  if (request->tlbs)
    valgrind_command_add(command, "--tlbs=%s", request->tlbs);
  return 0;
}

int miss_counter_read(struct miss_counter *counter, const struct miss_request *request, struct error *error) {
  json_error_t what;
  counter->simulated = json_load_file(counter->command.output, 0, &what);
  if (!counter->simulated)
    return error_set(error, counter->command.output, "the Valgrind tool left no result");
  json_t *first = json_array_get(json_object_get(counter->simulated, "caches"), 0);
  if (json_array_size(json_object_get(first, "snapshots")) != request->edges)
    return error_set(error, counter->command.output, "the Valgrind tool did not count by windows");
  uint64_t events = (uint64_t)json_integer_value(json_object_get(counter->simulated, "events"));
  if (events != request->ops)
    return error_set(error, request->accesses,
                     "calls played: %" PRIu64 " of %" PRIu64 "; the file was changed meanwhile", events, request->ops);
  return 0;
}
