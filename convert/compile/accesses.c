/* SPDX-License-Identifier: MIT */
#include "convert/compile/accesses.h"

#include "convert/history/access_order.h"
#include "core/trace/access_stream.h"
#include "core/trace/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 1 << 16 };

struct compile_accesses {
  const struct trace_reader *reader;
  struct access_order *order;
  struct error *error;
  const char *path;
  FILE *out;
  struct access_coder coder;
  size_t used;
  uint8_t bytes[OUT_BYTES];
};

void compile_accesses_free(struct compile_accesses *accesses) {
  if (!accesses)
    return;
  if (accesses->out)
    fclose(accesses->out);
  access_order_close(accesses->order);
  free(accesses);
}

static int write_out(struct compile_accesses *accesses) {
  size_t used = accesses->used;
  accesses->used = 0;
  if (fwrite(accesses->bytes, 1, used, accesses->out) == used)
    return 0;
  return error_errno(accesses->error, accesses->path, "can't write");
}

/* A replay needs neither thread nor acquires: they are in the workload. */
static int put(void *context, const struct access_item *item) {
  struct compile_accesses *accesses = context;
  struct access_item plain = *item;
  plain.thread = 0;
  plain.acquires = false;
  if (accesses->used > OUT_BYTES - ACCESS_ITEM_BYTES && write_out(accesses) != 0)
    return -1;
  uint8_t *end = access_put(&accesses->coder, accesses->bytes + accesses->used, &plain);
  accesses->used = (size_t)(end - accesses->bytes);
  return 0;
}

static void put_header(struct compile_accesses *accesses) {
  uint64_t filter_bytes = trace_reader_summary(accesses->reader)->access_filter_bytes;
  struct access_file_header header = {
      .version = ACCESS_FILE_VERSION,
      .filter_bytes = filter_bytes < UINT32_MAX ? (uint32_t)filter_bytes : UINT32_MAX,
  };
  memcpy(header.magic, ACCESS_FILE_MAGIC, sizeof header.magic);
  memcpy(accesses->bytes, &header, sizeof header);
  accesses->used = sizeof header;
}

static int put_totals(struct compile_accesses *accesses) {
  const struct trace_access_totals *totals = &trace_reader_summary(accesses->reader)->accesses;
  for (uint32_t total = 0; total < ACCESS_TOTAL_LIMIT; total++) {
    const struct access_item item = {.kind = ACCESS_TOTAL, .total = total, .value = totals->counted[total]};
    if (totals->known[total] && put(accesses, &item) != 0)
      return -1;
  }
  return 0;
}

int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
                          struct error *error) {
  struct compile_accesses *accesses = *out = calloc(1, sizeof *accesses);
  if (!accesses)
    return error_set(error, path, "out of memory");
  *accesses = (struct compile_accesses){.reader = reader, .path = path, .error = error};
  put_header(accesses);
  const struct access_item no_burst_yet = {.kind = ACCESS_BURST};
  if (trace_reader_summary(reader)->accesses.in_bursts)
    put(accesses, &no_burst_yet); /* into the buffer */
  const struct access_sink sink = {put, accesses};
  if (access_order_open(&accesses->order, reader, &sink, error) == 0) {
    accesses->out = fopen(path, "we");
    if (accesses->out)
      return 0;
    error_errno(error, path, "can't create");
  }
  compile_accesses_free(accesses);
  *out = NULL;
  return -1;
}

int compile_accesses_op(struct compile_accesses *accesses, const struct history_op *op) {
  return access_order_op(accesses->order, op);
}

int compile_accesses_left_out(struct compile_accesses *accesses, const struct merge_step *step) {
  return access_order_left_out(accesses->order, step, false);
}

int compile_accesses_finish(struct compile_accesses *accesses, struct access_order_counts *counts) {
  if (access_order_finish(accesses->order) != 0 || put_totals(accesses) != 0 || write_out(accesses) != 0)
    return -1;
  FILE *out = accesses->out;
  accesses->out = NULL;
  *counts = *access_order_counts(accesses->order);
  return fclose(out) == 0 ? 0 : error_errno(accesses->error, accesses->path, "can't write");
}
