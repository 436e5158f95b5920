/* SPDX-License-Identifier: MIT */
/* libFuzzer target: a format's name, a newline, then any bytes as the input of its importer, packed ones too. The
   resulting trace goes through the history with two horizons and through compile. Traps if an importer writes a trace
   that can't be read, or fails without an error that names its input. */
#include "convert/compile/compile.h"
#include "convert/foreign/format.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void import_bytes_of(const struct import_format *format, const uint8_t *bytes, size_t count) {
  static const struct import_options options = {
      .allow_gaps = true, .columns = "op=1,size=2,ptr=3,old=4,count=5,align=6,time:us=7,thread=8"};
  struct error error = {0};
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
      struct error wrong = {0};
      if (history_run(reader, &history, NULL, &witness, &wrong) != 0)
        __builtin_trap();
      compile_trace(reader, &(struct compile_outputs){.workload = work}, &history, &witness, &wrong);
    }
    trace_reader_close(reader);
  }
  close(in_fd);
  close(tape_fd);
  close(work_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  char name[32] = "";
  const uint8_t *end = memchr(bytes, '\n', count < sizeof name ? count : sizeof name);
  if (!end)
    return 0;
  memcpy(name, bytes, (size_t)(end - bytes));
  const struct format *format = format_by_name(name);
  if (format && format->import)
    import_bytes_of(format->import, end + 1, count - (size_t)(end + 1 - bytes));
  return 0;
}
