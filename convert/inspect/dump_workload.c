/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"
#include "convert/inspect/dump.h"
#include "core/trace/event.h"
#include "core/workload/workload_ops.h"

static size_t word_count(const struct buffer *words) {
  return words->used / sizeof(uint64_t);
}

/* A WAIT as THREAD:OPS, or [THREAD, OPS] in JSON; the thread of a START. */
static void put_word(struct lines *lines, const struct buffer *words, size_t number) {
  uint64_t word = ((const uint64_t *)(const void *)words->bytes)[number];
  bool json = lines->format == DUMP_JSONL, is_wait = word_code(word) == WORD_WAIT;
  put_option(lines, json && is_wait ? "[" : "", word_wait_thread(word));
  if (is_wait)
    put_option(lines, json ? ", " : ":", word_wait_ops(word));
  put_text(lines, json && is_wait ? "]" : "");
}

/* waits as "0:12 3:4", starts as "1,2"; a list in JSON. An op may wait for every thread: it may be a long line. */
static void field_words(struct lines *lines, const char *name, const struct buffer *words, const char *separator) {
  bool json = lines->format == DUMP_JSONL;
  size_t count = word_count(words);
  const char *quote = !json && count > 1 && *separator == ',' ? "\"" : "";
  if (!field_begin(lines, name, count > 0))
    return;
  put_text(lines, json ? "[" : quote);
  for (size_t i = 0; i < count; i++) {
    put_text(lines, i == 0 ? "" : json ? ", " : separator);
    put_word(lines, words, i);
    lines_flush_full(lines);
  }
  put_text(lines, json ? "]" : quote);
}

static void put_words(struct lines *lines, const char *name, const struct buffer *words) {
  for (size_t i = 0; i < word_count(words); i++) {
    put_text(lines, name);
    put_word(lines, words, i);
    lines_flush_full(lines);
  }
}

static void print_text(struct lines *lines, const struct workload_ops_op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  put_decimal(lines, op->position);
  put_option(lines, " ", op->thread);
  put_text(lines, " ");
  put_text(lines, info->ident);
  put_text(lines, "(");
  if (info->param != NONE)
    put_argument(lines, "", op->call, op->param);
  if (info->has_size)
    put_argument(lines, info->param != NONE ? ", " : "", op->call, op->size_bytes);
  put_text(lines, ")");
  if (op->slot != WORKLOAD_NO_SLOT)
    put_option(lines, " slot=", op->slot);
  put_text(lines, op->call & CALL_NULL_IN ? " null" : "");
  put_text(lines, op->call & CALL_NULL_OUT ? " frees" : "");
  put_words(lines, " wait=", &op->waits);
  put_words(lines, " start=", &op->starts);
  if (op->has_time)
    put_option(lines, " time=", op->time_ns);
  if (op->touched)
    put_option(lines, " touched=", touched_word_os_pages(op->touched) - 1u);
  if (touched_word_parts(op->touched))
    put_option(lines, " parts=", touched_word_parts(op->touched));
  if (op->region)
    put_option(lines, " apart=", op->region);
  put_text(lines, "\n");
}

static void print_fields(struct lines *lines, const struct workload_ops_op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  field_number(lines, "position", true, op->position);
  field_number(lines, "thread", true, op->thread);
  field_text(lines, "call", info->name);
  field_number(lines, "slot", op->slot != WORKLOAD_NO_SLOT, op->slot);
  field_number(lines, "size_bytes", info->has_size, op->size_bytes);
  field_number(lines, param_key(info), info->param != NONE, op->param);
  field_flag(lines, "null", op->call & CALL_NULL_IN);
  field_flag(lines, "frees", op->call & CALL_NULL_OUT);
  field_words(lines, "waits", &op->waits, " ");
  field_words(lines, "starts", &op->starts, ",");
  field_number(lines, "time_ns", op->has_time, op->time_ns);
  field_number(lines, "touched_os_pages", op->touched, touched_word_os_pages(op->touched) - 1u);
  field_number(lines, "apart", op->region, op->region);
  line_end(lines);
}

static int dump_ops(struct workload_ops *ops, const struct dump_options *options, struct lines *lines,
                    struct error *error) {
  int got;
  while ((got = workload_ops_next(ops, error)) > 0) {
    if (options->thread == MERGE_ALL_THREADS || options->thread == ops->op.thread)
      (options->format == DUMP_TEXT ? print_text : print_fields)(lines, &ops->op);
    if (lines_flush_full(lines) != 0 || ferror(lines->out.file))
      return error_errno(error, lines->out.name, "can't write");
  }
  return got;
}

static void put_header(struct lines *lines, const struct workload_header *header) {
  if (lines->format == DUMP_CSV)
    put_text(lines, "position,thread,call,slot,size_bytes,param,null,frees,waits,starts,time_ns,touched_os_pages,"
                    "apart\n");
  if (lines->format != DUMP_TEXT)
    return;
  put_option(lines, "# heaptape workload: ", header->ops);
  put_option(lines, " ops of ", header->threads);
  put_option(lines, " threads, ", header->slots);
  put_text(lines, " slots\n");
}

int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error) {
  struct workload_ops ops;
  struct lines lines = {.out = out, .format = options->format};
  int result = workload_ops_open(&ops, workload, error);
  if (result == 0) {
    put_header(&lines, &workload->header);
    result = dump_ops(&ops, options, &lines, error);
  }
  if (lines_finish(&lines, error) != 0)
    result = -1;
  workload_ops_close(&ops);
  return result;
}
