/* SPDX-License-Identifier: MIT */
#include "convert/fuzz/import_fuzzing.h"

#include "convert/compile/compile.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void name_of(char *path, size_t room, int fd) {
  snprintf(path, room, "/proc/self/fd/%d", fd);
}

/* The history and compile start helper threads and take most of the time; they have their own fuzzer. One trace in
   eight is passed to them, always the same ones. */
static bool chosen(const uint8_t *bytes, size_t count) {
  uint32_t sum = (uint32_t)count;
  for (size_t i = 0; i < count; i++)
    sum = sum * 31 + bytes[i];
  return sum % 8 == 0;
}

int fuzz_one_import(const struct import_format *format, const uint8_t *bytes, size_t count) {
  static const struct import_options options = {.allow_gaps = true};
  struct error error = {""};
  struct trace_reader *reader;
  struct witness witness;
  char in[64], tape[64], work[64];
  int in_fd = memfd_create("in", 0), tape_fd = memfd_create("tape", 0), work_fd = memfd_create("work", 0);
  name_of(in, sizeof in, in_fd);
  name_of(tape, sizeof tape, tape_fd);
  name_of(work, sizeof work, work_fd);
  if (write(in_fd, bytes, count) != (ssize_t)count)
    __builtin_trap();
  if (import_file(format, in, &options, tape, &error) != 0) {
    if (strncmp(error.text, in, strlen(in)) != 0 || error.text[strlen(in)] != ':')
      __builtin_trap();
  } else {
    if (trace_reader_open(&reader, tape, &error) != 0)
      __builtin_trap();
    for (int i = 0; i < 2 && chosen(bytes, count); i++) {
      struct history_options history = {.horizon_ns = i ? 1e7 : 0};
      struct error wrong = {""};
      if (history_run(reader, &history, NULL, &witness, &wrong) != 0)
        __builtin_trap();
      compile_trace(reader, &(struct compile_outputs){.workload = work}, &history, &witness, &wrong);
    }
    trace_reader_close(reader);
  }
  close(in_fd);
  close(tape_fd);
  close(work_fd);
  return 0;
}
