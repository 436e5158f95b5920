/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a trace. The checksums of headers and frames would keep a fuzzer out of the decoder,
   so the first byte of the input chooses between the file reader on the bytes as they are and the block decoders, of
   events and of data accesses, on columns cut from them. */
#include "core/test/usual.h"
#include "core/trace/read/reader.h"
#include "core/trace/read/trace_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static int ignore_node(void *context, const struct trace_stack_node *node) {
  (void)context;
  if (node->parent >= node->node)
    __builtin_trap();
  return 0;
}
static int ignore_module(void *context, const struct trace_module *module) {
  (void)context;
  return module->start >= module->end || strlen(module->name) > 4095;
}
static int ignore_mark(void *context, const struct trace_mark *mark) {
  (void)context;
  return strlen(mark->text) > TRACE_MARK_MAX_BYTES;
}
static int ignore_name(void *context, uint32_t thread, const char *name) {
  (void)context;
  (void)thread;
  return strlen(name) > 255;
}

static void read_accesses(const struct trace_reader *reader, struct error *error) {
  struct trace_access_cursor *cursor;
  struct access_item item;
  uint64_t acquired = 0;
  if (trace_access_cursor_open(&cursor, reader, error) == 0)
    while (trace_access_cursor_next(cursor, &item) == 1) {
      if (item.kind == ACCESS_OBJECT && item.object >= acquired)
        __builtin_trap();
      acquired += item.kind == ACCESS_EVENT && item.acquires;
    }
  trace_access_cursor_close(cursor);
}

static void read_as_file(const uint8_t *bytes, size_t count) {
  int fd = memfd_create("fuzz", 0);
  char path[64];
  struct error error = {0};
  struct trace_reader *reader;
  if (write(fd, bytes, count) != (ssize_t)count)
    __builtin_trap();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (trace_reader_open(&reader, path, &error) == 0) {
    for (uint32_t thread = 0; thread < trace_reader_summary(reader)->threads; thread++) {
      struct trace_cursor *cursor;
      struct trace_event event;
      if (trace_cursor_open(&cursor, reader, thread, &error) == 0)
        while (trace_cursor_next(cursor, &event) == 1)
          ;
      trace_cursor_close(cursor);
    }
    if (trace_reader_stacks(reader, ignore_node, NULL, &error) > 0 ||
        trace_reader_modules(reader, ignore_module, NULL, &error) > 0 ||
        trace_reader_marks(reader, ignore_mark, NULL, &error) > 0 ||
        trace_reader_thread_names(reader, ignore_name, NULL, &error) > 0)
      __builtin_trap();
    read_accesses(reader, &error);
    trace_reader_close(reader);
  }
  close(fd);
}

/* Takes for each column a length byte and that many bytes; for the first column first_bytes bytes. */
static void take_columns(struct byte_span *columns, int limit, uint32_t first_bytes, struct byte_span input) {
  for (int column = 1; column < limit && input.at < input.end; column++) {
    size_t length = *input.at++;
    if (column == 1)
      length = first_bytes;
    if (length > (size_t)(input.end - input.at))
      length = (size_t)(input.end - input.at);
    columns[column] = (struct byte_span){input.at, input.at + length};
    input.at += length;
  }
}

/* Input: rows, steps, stamps and shifts in eight bytes, then the columns. The byte of a shift also has whether it is an
   archive: those have no column 1. */
static void decode_as_columns(const uint8_t *bytes, size_t count) {
  static struct block_decoder decoder;
  memset(decoder.columns, 0, sizeof decoder.columns);
  decoder.rows = 1 + bytes[0];
  decoder.steps = decoder.rows + bytes[1];
  decoder.stamp = bytes[2];
  decoder.last_stamp = bytes[3] | (uint64_t)bytes[4] << 8;
  decoder.release_shift = bytes[5] & 63;
  decoder.acquire_shift = bytes[6] & 63;
  decoder.stack_nodes = bytes[7];
  uint32_t calls = bytes[5] & 64 ? 0 : decoder.rows;
  take_columns(decoder.columns, EVENT_COLUMNS, calls, (struct byte_span){bytes + 8, bytes + count});
  struct trace_event events[3];
  const char *wrong = block_decode_begin(&decoder);
  while (!wrong && decoder.row < decoder.rows)
    if (block_decode_rows(&decoder, events, 3, &wrong) > 3)
      __builtin_trap();
}

/* Input: rows, and acquires before and after them, in three bytes, then the columns. */
static void decode_as_accesses(const uint8_t *bytes, size_t count) {
  struct access_decoder decoder = {
      .rows = 1 + bytes[0], .acquired = bytes[1], .last_acquired = (uint64_t)bytes[1] + bytes[2]};
  struct access_item item;
  take_columns(decoder.columns, ACCESS_COLUMNS, decoder.rows, (struct byte_span){bytes + 3, bytes + count});
  const char *wrong = access_decode_begin(&decoder);
  for (uint32_t row = 0; row < decoder.rows && !wrong; row++) {
    wrong = access_decode_next(&decoder, &item);
    if (!wrong && item.kind == ACCESS_OBJECT && item.object >= decoder.acquired)
      __builtin_trap();
  }
  access_decoder_free(&decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
  if (count > 9 && (bytes[0] & 3) == 3)
    decode_as_accesses(bytes + 1, count - 1);
  else if (count > 9 && bytes[0] & 1)
    decode_as_columns(bytes + 1, count - 1);
  else
    read_as_file(bytes, count);
  return 0;
}
