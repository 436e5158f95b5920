#include "replay/parent/under_valgrind.h"

#include "core/base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int under_valgrind_begin(struct under_valgrind *under, struct error *error) {
  under->directory[0] = '\0';
  under->option_count = 0;
  ssize_t bytes = readlink("/proc/self/exe", under->engine, sizeof under->engine - 1);
  if (bytes <= 0)
    return error_errno(error, "/proc/self/exe", "can't read");
  under->engine[bytes] = '\0';
  strcpy(under->directory, "/tmp/heaptape-valgrind.XXXXXX");
  if (!mkdtemp(under->directory)) {
    error_errno(error, under->directory, "can't make the directory");
    under->directory[0] = '\0';
    return -1;
  }
  snprintf(under->output, sizeof under->output, "%s/out", under->directory);
  snprintf(under->log, sizeof under->log, "%s/log", under->directory);
  under_valgrind_add(under, "--log-file=%s", under->log);
  return 0;
}

void under_valgrind_add(struct under_valgrind *under, const char *format, ...) {
  HT_ASSERT(under->option_count < VALGRIND_OPTION_LIMIT);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(under->options[under->option_count++], VALGRIND_OPTION_BYTES, format, arguments);
  va_end(arguments);
}

void under_valgrind_set_environment(const struct under_valgrind *under) {
  if (under->valgrind.library[0])
    setenv("VALGRIND_LIB", under->valgrind.library, 1);
}

void under_valgrind_exec(const struct under_valgrind *under, const char *argument) {
  char *arguments[VALGRIND_OPTION_LIMIT + 4];
  unsigned count = 0;
  arguments[count++] = "valgrind";
  for (unsigned option = 0; option < under->option_count; option++)
    arguments[count++] = (char *)under->options[option];
  arguments[count++] = (char *)under->engine;
  arguments[count++] = (char *)argument;
  arguments[count] = NULL;
  execv(under->valgrind.program, arguments);
}

void under_valgrind_finish(struct under_valgrind *under) {
  if (!under->directory[0])
    return;
  unlink(under->output);
  unlink(under->log);
  rmdir(under->directory);
}
