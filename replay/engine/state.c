/* SPDX-License-Identifier: MIT */
#include "replay/engine/state.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct engine engine;

static __thread const struct replay_thread *running;

void engine_runs(const struct replay_thread *self) {
  running = self;
}

uint32_t engine_running_thread(void) {
  return running ? running->number + 1 : 0;
}

void engine_fail(const uint64_t *word, const char *format, ...) {
  struct replay_result *result = engine.result;
  char what[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  uint32_t nobody = 0;
  if (!atomic_compare_exchange_strong(&result->failed, &nobody, 1))
    for (;;)
      pause(); /* another thread is about to end the process */
  if (word && running && workload_stream_holds(&running->worker->stream, word))
    error_at(&result->error, result->setup.path, workload_stream_offset_of(&running->worker->stream, word), "%s", what);
  else
    error_set(&result->error, result->setup.path, "%s", what);
  atomic_store(&result->failed, 2);
  _exit(1);
}
