/* SPDX-License-Identifier: MIT */
/* A trace with calls that are in no table, as those of an allocator that only a later version knows: one error that
   says so; all events before the first of them are read. */
#include "core/test/trace_file.h"

enum { UNKNOWN = 60, BLOCK_EVENTS = 100, BEFORE = 3 * BLOCK_EVENTS, AFTER = 50 };

static void write_trace(uint8_t call) {
  struct trace_writer *writer = begin(&(struct trace_writer_options){.block_events = BLOCK_EVENTS}, "");
  for (uint64_t i = 0; i < BEFORE + AFTER; i++) {
    struct trace_event event = {
        .call = i < BEFORE ? CALL_malloc : call, .acquired = 64 * i + 64, .acquire_stamp = i + 1};
    if (i >= BEFORE)
      event = (struct trace_event){.call = call, .release_stamp = i + 1};
    CHECK(trace_writer_event(writer, 0, &event) == 0, "event %lu", i);
  }
  finish(writer);
}

/* Returns how many events are read. */
static uint64_t read_trace(void) {
  struct trace_reader *reader = read_again();
  struct trace_cursor *cursor = open_cursor(reader, 0);
  struct trace_event event;
  uint64_t count = 0;
  while (trace_cursor_next(cursor, &event) == 1)
    count++;
  trace_cursor_close(cursor);
  trace_reader_close(reader);
  return count;
}

int main(void) {
  make_file();
  write_trace(CALL_mallinfo);
  CHECK(read_trace() == BEFORE + AFTER && !error.text[0], "%s", error.text);
  write_trace(UNKNOWN);
  CHECK(read_trace() == BEFORE, "%s", error.text);
  CHECK(strstr(error.text, "unknown call") && !strchr(error.text, '\n'), "%s", error.text);
  return 0;
}
