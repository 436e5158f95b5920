/* libFuzzer target: any bytes as the input of an importer (the first byte chooses which), then the trace that came of
   it through the history with two horizons and through compile. */
#define _GNU_SOURCE
#include "convert/compile.h"
#include "convert/import.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void name_of(char *path, size_t room, int fd) {
  snprintf(path, room, "/proc/self/fd/%d", fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  struct trace_error error = {""};
  struct trace_reader *reader;
  struct witness witness;
  char in[64], tape[64], work[64];
  if (count == 0)
    return 0;
  int in_fd = memfd_create("in", 0), tape_fd = memfd_create("tape", 0), work_fd = memfd_create("work", 0);
  name_of(in, sizeof in, in_fd);
  name_of(tape, sizeof tape, tape_fd);
  name_of(work, sizeof work, work_fd);
  if (write(in_fd, bytes + 1, count - 1) != (ssize_t)(count - 1))
    __builtin_trap();
  const struct import_format *format = bytes[0] & 1 ? &import_format_android : &import_format_text;
  if (import_file(format, in, NULL, tape, NULL, &error) == 0) {
    /* What an importer wrote must be readable. */
    if (trace_reader_open(&reader, tape, &error) != 0)
      __builtin_trap();
    for (int i = 0; i < 2; i++) {
      struct history_options options = {.horizon_ns = i ? 1e7 : 0};
      history_run(reader, &options, NULL, &witness, &error);
      compile_trace(reader, work, &options, &witness, &error);
    }
    trace_reader_close(reader);
  }
  close(in_fd);
  close(tape_fd);
  close(work_fd);
  return 0;
}
