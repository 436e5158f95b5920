/* SPDX-License-Identifier: MIT */
#include "replay/engine/state.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

struct engine engine;
__thread const struct replay_thread *engine_running;

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
  if (word && engine_running && workload_stream_holds(&engine_running->worker->stream, word))
    error_at(&result->error, result->path, workload_stream_offset_of(&engine_running->worker->stream, word), "%s",
             what);
  else
    error_set(&result->error, result->path, "%s", what);
  atomic_store(&result->failed, 2);
  _exit(1);
}

/* Notes which thread it was. The signal then has its default effect, as the handler is gone (SA_RESETHAND) and the
   instruction runs again or abort() raises the signal again. */
static void on_fatal_signal(int number, siginfo_t *about, void *context) {
  (void)context;
  uint64_t address = (uint64_t)(uintptr_t)about->si_addr;
  struct replay_result *result = engine.result;
  if (number == SIGBUS && address >= result->file_first && address < result->file_last)
    engine_fail(NULL, "was truncated while it was being replayed");
  if (number == SIGBUS && address >= result->origins_first && address < result->origins_last)
    engine_fail(NULL, "%s was truncated while it was being read", result->origins_path);
  uint32_t nobody = 0;
  atomic_compare_exchange_strong(&result->died_thread, &nobody, engine_running ? engine_running->number + 1 : 0);
}

void engine_watch_for_signals(void) {
  struct sigaction action = {.sa_sigaction = on_fatal_signal, .sa_flags = SA_SIGINFO | SA_RESETHAND};
  static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP};
  for (size_t index = 0; index < sizeof numbers / sizeof *numbers; index++)
    sigaction(numbers[index], &action, NULL);
}
