/* SPDX-License-Identifier: MIT */
/* A trace in a temporary file, for tests of trace/. */
#pragma once

#include "core/test/check.h"
#include "core/trace/read/trace_read.h"
#include "core/trace/write/trace_write.h"

static char path[] = "/tmp/heaptape-test-XXXXXX";
static struct error error;

/* Of a call that returns 0, or -1 with `error`. */
#define MUST(call) CHECK((call) == 0, "%s", error.text)

static void remove_file(void) {
  unlink(path);
}

/* Makes the file, which is removed when the test ends. */
static inline void make_file(void) {
  int fd = mkstemp(path);
  CHECK(fd >= 0 && close(fd) == 0 && atexit(remove_file) == 0, "%s", path);
}

/* more: further members of its info, each behind a comma. */
static inline struct trace_writer *begin(const struct trace_writer_options *options, const char *more) {
  struct trace_writer *writer;
  char info[512];
  snprintf(info, sizeof info, "{\"clock\":{\"kind\":\"tsc\",\"hz\":1e9}%s}", more);
  error.text[0] = '\0';
  MUST(trace_writer_open(&writer, path, info, options, &error));
  return writer;
}

static inline void finish(struct trace_writer *writer) {
  MUST(trace_writer_close(writer, "exit", 0, &error));
}

static inline struct trace_reader *read_again(void) {
  struct trace_reader *reader;
  error.text[0] = '\0';
  MUST(trace_reader_open(&reader, path, &error));
  return reader;
}

static inline struct trace_reader *end(struct trace_writer *writer) {
  finish(writer);
  return read_again();
}

static inline struct trace_cursor *open_cursor(struct trace_reader *reader, uint32_t thread) {
  struct trace_cursor *cursor;
  MUST(trace_cursor_open(&cursor, reader, thread, &error));
  return cursor;
}
