/* SPDX-License-Identifier: MIT */
/* `compile --accesses`: the file of data accesses that belongs to a workload (WORKLOAD.md, accesses): one EVENT item
   for each op, in the workload's order; between them the accesses that the program made there, with objects named by
   their slots; then the recording's totals.

   Calls that are not ops (failed calls, releases of objects never seen, calls counted by a gap) have no item. */
#include "convert/accesses/access_order.h"
#include "convert/commands/commands.h"
#include "convert/compile/compile.h"
#include "core/base/json.h"
#include "core/trace/access_stream.h"
#include "core/trace/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_BYTES = 1 << 16 };

struct accesses {
  struct compile_file file; /* its first member: the compiler has a pointer to it */
  const struct trace_reader *reader;
  struct access_order *order;
  struct access_order_counts counts; /* of those compiled or lost */
  struct error *error;
  FILE *out;
  struct access_coder coder;
  size_t used;
  uint8_t bytes[OUT_BYTES];
};

static int write_out(struct accesses *accesses) {
  size_t used = accesses->used;
  accesses->used = 0;
  if (fwrite(accesses->bytes, 1, used, accesses->out) == used)
    return 0;
  return error_errno(accesses->error, accesses->file.output.opened, "can't write");
}

/* A replay needs neither thread nor acquires: they are in the workload. */
static int put(void *context, const struct access_item *item) {
  struct accesses *accesses = context;
  struct access_item plain = *item;
  plain.thread = 0;
  plain.acquires = false;
  if (accesses->used > OUT_BYTES - ACCESS_ITEM_BYTES && write_out(accesses) != 0)
    return -1;
  uint8_t *end = access_put(&accesses->coder, accesses->bytes + accesses->used, &plain);
  accesses->used = (size_t)(end - accesses->bytes);
  return 0;
}

static void put_header(struct accesses *accesses) {
  uint64_t filter_bytes = trace_reader_summary(accesses->reader)->access_filter_bytes;
  struct access_file_header header = {
      .version = ACCESS_FILE_VERSION,
      .filter_bytes = filter_bytes < UINT32_MAX ? (uint32_t)filter_bytes : UINT32_MAX,
  };
  memcpy(header.magic, ACCESS_FILE_MAGIC, sizeof header.magic);
  memcpy(accesses->bytes, &header, sizeof header);
  accesses->used = sizeof header;
}

static int put_totals(struct accesses *accesses) {
  const struct trace_access_totals *totals = &trace_reader_summary(accesses->reader)->accesses;
  for (uint32_t total = 0; total < ACCESS_TOTAL_LIMIT; total++) {
    const struct access_item item = {.kind = ACCESS_TOTAL, .total = total, .value = totals->counted[total]};
    if (totals->known[total] && put(accesses, &item) != 0)
      return -1;
  }
  return 0;
}

static void close_file(struct compile_file *file) {
  struct accesses *accesses = (struct accesses *)file;
  if (accesses->out)
    fclose(accesses->out);
  access_order_close(accesses->order);
}

static int open_file(struct compile_file *file, struct trace_reader *reader, struct error *error) {
  struct accesses *accesses = (struct accesses *)file;
  accesses->reader = reader;
  accesses->error = error;
  put_header(accesses);
  const struct access_item no_burst_yet = {.kind = ACCESS_BURST};
  if (trace_reader_summary(reader)->accesses.in_bursts)
    put(accesses, &no_burst_yet); /* into the buffer */
  const struct access_sink sink = {put, accesses};
  if (access_order_open(&accesses->order, reader, &sink, error) != 0)
    return -1;
  accesses->out = fopen(file->output.opened, "we");
  return accesses->out ? 0 : error_errno(error, file->output.opened, "can't create");
}

/* Errors go where those of open went. */
static int take_op(struct compile_file *file, const struct history_op *op, uint32_t thread, struct error *error) {
  (void)thread, (void)error;
  return access_order_op(((struct accesses *)file)->order, op);
}

static int take_left_out(struct compile_file *file, const struct merge_step *step) {
  return access_order_left_out(((struct accesses *)file)->order, step, false);
}

/* To the rest of the info's `accesses`, which is of the trace, whether these are compiled or not. */
static void describe(const struct access_order_counts *counts, json_t *info) {
  json_t *object = json_object();
  json_set_count(object, "objects", counts->objects);
  json_set_count(object, "other", counts->other);
  json_set_count(object, "lost", counts->lost);
  json_set_count(object, "ops_without_call", counts->ops_without_call);
  json_object_set_new(info, "accesses", object);
}

static int end(struct compile_file *file, json_t *info, struct error *error) {
  struct accesses *accesses = (struct accesses *)file;
  if (access_order_finish(accesses->order) != 0 || put_totals(accesses) != 0 || write_out(accesses) != 0)
    return -1;
  FILE *out = accesses->out;
  accesses->out = NULL;
  accesses->counts = *access_order_counts(accesses->order);
  describe(&accesses->counts, info);
  return fclose(out) == 0 ? 0 : error_errno(error, file->output.opened, "can't write");
}

static void warn(const struct compile_file *file, const char *in, const struct trace_reader *reader) {
  const struct access_order_counts *compiled = &((const struct accesses *)file)->counts;
  uint64_t lost = compiled->lost, all = compiled->objects + compiled->other + lost;
  uint64_t lost_before = trace_reader_summary(reader)->accesses.lost;
  if (lost)
    diagnostics_warning(
        CONVERT, "%s: %" PRIu64 " of %" PRIu64 " data accesses left out, as their objects are not live at that point",
        in, lost, all);
  if (compiled->ops_without_call)
    diagnostics_warning(CONVERT, "%s: the data accesses end %" PRIu64 " calls before the events", in,
                        compiled->ops_without_call);
  if (lost_before)
    diagnostics_warning(CONVERT, "%s: %" PRIu64 " data accesses were lost when the trace was made", in, lost_before);
}

static const char *take_accesses(void *field, const char *value) {
  struct compile_added *added = field;
  struct compile_file *file = added->files;
  while (file && file->op != take_op)
    file = file->next;
  if (file) {
    file->path = value;
    return NULL;
  }
  struct accesses *accesses = calloc(1, sizeof *accesses);
  if (!accesses)
    return "out of memory";
  accesses->file = (struct compile_file){
      .next = added->files,
      .path = value,
      .with_rewriting = "compile --accesses: a rewritten history (--group) has no data accesses",
      .open = open_file,
      .op = take_op,
      .left_out = take_left_out,
      .end = end,
      .close = close_file,
      .warn = warn,
  };
  added->files = &accesses->file;
  return NULL;
}

static const struct cli_option options[] = {
    {"accesses", 0, "OUT.accesses", take_accesses, 0,
     .help = "write the trace's data accesses for the replay pass misses (record --accesses)"},
    {.name = NULL},
};
CLI_ADD(compile, options);
