#include "replay/driver/callgrind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char CALLER_PREFIX[] = "heaptape_calls_";

int callgrind_begin(struct callgrind *callgrind, struct trace_error *error) {
  *callgrind = (struct callgrind){.directory = "/tmp/heaptape-callgrind.XXXXXX"};
  ssize_t bytes = readlink("/proc/self/exe", callgrind->engine, sizeof callgrind->engine - 1);
  if (bytes <= 0)
    return trace_error_errno(error, "/proc/self/exe", "can't read");
  if (!mkdtemp(callgrind->directory)) {
    trace_error_errno(error, callgrind->directory, "can't make the directory");
    callgrind->directory[0] = '\0';
    return -1;
  }
  snprintf(callgrind->output, sizeof callgrind->output, "%s/out", callgrind->directory);
  snprintf(callgrind->log, sizeof callgrind->log, "%s/log", callgrind->directory);
  return 0;
}

void callgrind_exec(const struct callgrind *callgrind, const char *argument) {
  char output[128], log[128], collect[64];
  snprintf(output, sizeof output, "--callgrind-out-file=%s", callgrind->output);
  snprintf(log, sizeof log, "--log-file=%s", callgrind->log);
  snprintf(collect, sizeof collect, "--toggle-collect=%s*", CALLER_PREFIX);
  /* Plain names and numbers in the output, as this reader is short. */
  char *arguments[] = {
      "valgrind",          "--tool=callgrind",        output,           log, collect, "--compress-strings=no",
      "--compress-pos=no", (char *)callgrind->engine, (char *)argument, NULL};
  /* Debian's valgrind is a shell script around valgrind.bin, and a shell with the allocator under test preloaded is not
     what is to be measured. */
  const char *path = getenv("PATH");
  while (path && *path) {
    int length = (int)strcspn(path, ":");
    char program[4096];
    snprintf(program, sizeof program, "%.*s/valgrind.bin", length, path);
    execv(program, arguments);
    snprintf(program, sizeof program, "%.*s/valgrind", length, path);
    execv(program, arguments);
    path += length + (path[length] != '\0');
  }
}

/* The call whose caller's name that is; -1 if it is none. */
static int call_of_caller(const char *function) {
  if (strncmp(function, CALLER_PREFIX, sizeof CALLER_PREFIX - 1) != 0)
    return -1;
  char ident[64];
  size_t bytes = strcspn(function + sizeof CALLER_PREFIX - 1, "'\n");
  snprintf(ident, sizeof ident, "%.*s", (int)bytes, function + sizeof CALLER_PREFIX - 1);
  return call_by_name(ident);
}

/* "fn=CALLER" begins a function; "calls=N ..." is followed by "LINE INSTRUCTIONS", those of all below the call. */
int callgrind_read(const struct callgrind *callgrind, uint64_t instructions[CALL_LIMIT], struct trace_error *error) {
  FILE *file = fopen(callgrind->output, "r");
  if (!file)
    return trace_error_errno(error, callgrind->output, "callgrind left no output");
  memset(instructions, 0, CALL_LIMIT * sizeof *instructions);
  char line[4096];
  int call = -1;
  bool is_below = false, complete = false;
  while (fgets(line, sizeof line, file)) {
    uint64_t count;
    if (strncmp(line, "fn=", 3) == 0)
      call = call_of_caller(line + 3);
    else if (is_below && call >= 0 && sscanf(line, "%*s %" SCNu64, &count) == 1)
      instructions[call] += count;
    complete |= strncmp(line, "totals:", 7) == 0;
    is_below = strncmp(line, "calls=", 6) == 0;
  }
  fclose(file);
  return complete ? 0 : trace_error_set(error, callgrind->output, "callgrind's output is cut short");
}

void callgrind_finish(struct callgrind *callgrind) {
  if (!callgrind->directory[0])
    return;
  unlink(callgrind->output);
  unlink(callgrind->log);
  rmdir(callgrind->directory);
}
