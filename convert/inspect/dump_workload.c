/* SPDX-License-Identifier: MIT */
#include "convert/history/merge.h"
#include "convert/inspect/inspect.h"
#include "core/trace/event.h"
#include "core/workload/workload_read.h"

#include <inttypes.h>
#include <string.h>

static size_t word_count(const struct buffer *words) {
  return words->used / sizeof(uint64_t);
}
static uint64_t word_at(const struct buffer *words, size_t number) {
  return ((const uint64_t *)(const void *)words->bytes)[number];
}

/* Prints waits as "0:12,3:4", starts as "1,2"; or as JSON. */
static void print_words(FILE *out, const struct buffer *words, bool json) {
  for (size_t i = 0; i < word_count(words); i++) {
    uint64_t word = word_at(words, i);
    const char *separator = i == 0 ? "" : json ? ", " : word_code(word) == WORD_WAIT ? " " : ",";
    if (word_code(word) == WORD_START)
      fprintf(out, "%s%" PRIu32, separator, word_wait_thread(word));
    else
      fprintf(out, json ? "%s[%" PRIu32 ", %" PRIu64 "]" : "%s%" PRIu32 ":%" PRIu64, separator, word_wait_thread(word),
              word_wait_ops(word));
  }
}

static void print_text(FILE *out, const struct workload_ops_op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  fprintf(out, "%" PRIu64 " %" PRIu32 " %s(", op->position, op->thread, info->ident);
  if (info->param != NONE)
    fprintf(out, "%" PRIu64 "%s", op->param, info->has_size ? ", " : "");
  if (info->has_size)
    fprintf(out, "%" PRIu64, op->size_bytes);
  fputs(")", out);
  if (op->slot != WORKLOAD_NO_SLOT)
    fprintf(out, " slot=%" PRIu32, op->slot);
  fputs(op->call & CALL_NULL_IN ? " null" : "", out);
  fputs(op->call & CALL_NULL_OUT ? " frees" : "", out);
  for (size_t i = 0; i < word_count(&op->waits); i++)
    fprintf(out, " wait=%" PRIu32 ":%" PRIu64, word_wait_thread(word_at(&op->waits, i)),
            word_wait_ops(word_at(&op->waits, i)));
  for (size_t i = 0; i < word_count(&op->starts); i++)
    fprintf(out, " start=%" PRIu32, word_wait_thread(word_at(&op->starts, i)));
  if (op->has_time)
    fprintf(out, " time=%" PRIu64, op->time_ns);
  if (op->touched)
    fprintf(out, " touched=%" PRIu64, op->touched - 1);
  if (op->region)
    fprintf(out, " apart=%" PRIu64, op->region);
  fputs("\n", out);
}

static void print_csv(FILE *out, const struct workload_ops_op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  const char *quote = strchr(info->name, ',') ? "\"" : "";
  fprintf(out, "%" PRIu64 ",%" PRIu32 ",%s%s%s,", op->position, op->thread, quote, info->name, quote);
  if (op->slot != WORKLOAD_NO_SLOT)
    fprintf(out, "%" PRIu32, op->slot);
  fputs(",", out);
  if (info->has_size)
    fprintf(out, "%" PRIu64, op->size_bytes);
  fputs(",", out);
  if (info->param != NONE)
    fprintf(out, "%" PRIu64, op->param);
  fprintf(out, ",%d,%d,", (op->call & CALL_NULL_IN) != 0, (op->call & CALL_NULL_OUT) != 0);
  print_words(out, &op->waits, false);
  fprintf(out, "%s", word_count(&op->starts) > 1 ? ",\"" : ",");
  print_words(out, &op->starts, false);
  fprintf(out, "%s", word_count(&op->starts) > 1 ? "\"," : ",");
  if (op->has_time)
    fprintf(out, "%" PRIu64, op->time_ns);
  fputs(",", out);
  if (op->touched)
    fprintf(out, "%" PRIu64, op->touched - 1);
  fputs(",", out);
  if (op->region)
    fprintf(out, "%" PRIu64, op->region);
  fputs("\n", out);
}

static void print_jsonl(FILE *out, const struct workload_ops_op *op) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  fprintf(out, "{\"position\": %" PRIu64 ", \"thread\": %" PRIu32 ", \"call\": \"%s\"", op->position, op->thread,
          info->name);
  if (op->slot != WORKLOAD_NO_SLOT)
    fprintf(out, ", \"slot\": %" PRIu32, op->slot);
  if (info->has_size)
    fprintf(out, ", \"size_bytes\": %" PRIu64, op->size_bytes);
  if (info->param != NONE)
    fprintf(out, ", \"%s\": %" PRIu64, info->param == COUNT ? "count" : "align_bytes", op->param);
  fputs(op->call & CALL_NULL_IN ? ", \"null\": true" : "", out);
  fputs(op->call & CALL_NULL_OUT ? ", \"frees\": true" : "", out);
  if (op->waits.used) {
    fputs(", \"waits\": [", out);
    print_words(out, &op->waits, true);
    fputs("]", out);
  }
  if (op->starts.used) {
    fputs(", \"starts\": [", out);
    print_words(out, &op->starts, true);
    fputs("]", out);
  }
  if (op->has_time)
    fprintf(out, ", \"time_ns\": %" PRIu64, op->time_ns);
  if (op->touched)
    fprintf(out, ", \"touched_os_pages\": %" PRIu64, op->touched - 1);
  if (op->region)
    fprintf(out, ", \"apart\": %" PRIu64, op->region);
  fputs("}\n", out);
}

static int dump_ops(struct workload_ops *ops, const struct dump_options *options, struct output_stream out,
                    struct error *error) {
  void (*const print[])(FILE *, const struct workload_ops_op *) = {print_text, print_csv, print_jsonl};
  int got;
  while ((got = workload_ops_next(ops, error)) > 0) {
    if (options->thread == MERGE_ALL_THREADS || options->thread == ops->op.thread)
      print[options->format](out.file, &ops->op);
    if (ferror(out.file))
      return error_errno(error, out.name, "can't write");
  }
  return got;
}

int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error) {
  const struct workload_header *header = &workload->header;
  struct workload_ops ops;
  int result = workload_ops_open(&ops, workload, error);
  if (result == 0 && options->format == DUMP_TEXT)
    fprintf(out.file, "# heaptape workload: %" PRIu64 " ops of %" PRIu32 " threads, %" PRIu32 " slots\n", header->ops,
            header->threads, header->slots);
  if (result == 0 && options->format == DUMP_CSV)
    fputs("position,thread,call,slot,size_bytes,param,null,frees,waits,starts,time_ns,touched_os_pages,apart\n",
          out.file);
  if (result == 0)
    result = dump_ops(&ops, options, out, error);
  if (fflush(out.file) != 0 && result == 0)
    result = error_errno(error, out.name, "can't write");
  workload_ops_close(&ops);
  return result;
}

/* acquired: the number of the object, for a call that acquired. */
static void print_access_text(FILE *out, const struct access_item *item, uint64_t acquired) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "call %" PRIu32 " sp=0x%" PRIx64, item->thread, item->stack_pointer);
    if (item->acquires)
      fprintf(out, " acquires %" PRIu64, acquired);
    fputc('\n', out);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "object %" PRIu64 " %c0x%" PRIx64 "\n", item->object, item->granule < 0 ? '-' : '+',
            (uint64_t)(item->granule < 0 ? -item->granule : item->granule) << ACCESS_GRANULE_SHIFT);
    break;
  case ACCESS_BURST:
    fputs(item->value ? "burst begins\n" : "burst ends\n", out);
    break;
  default:
    fprintf(out, "other 0x%" PRIx64 "\n", (uint64_t)item->granule << ACCESS_GRANULE_SHIFT);
  }
}

static void print_access_csv(FILE *out, const struct access_item *item) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "call,%" PRIu32 ",%d,%" PRIu64 ",,\n", item->thread, item->acquires, item->stack_pointer);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "object,,,,%" PRIu64 ",%" PRId64 "\n", item->object, item->granule);
    break;
  case ACCESS_BURST:
    fprintf(out, "burst %s,,,,,\n", item->value ? "begins" : "ends");
    break;
  default:
    fprintf(out, "other,,,,,%" PRId64 "\n", item->granule);
  }
}

static void print_access_jsonl(FILE *out, const struct access_item *item) {
  switch (item->kind) {
  case ACCESS_EVENT:
    fprintf(out, "{\"kind\": \"call\", \"thread\": %" PRIu32 ", \"acquires\": %d, \"stack_pointer\": %" PRIu64 "}\n",
            item->thread, item->acquires, item->stack_pointer);
    break;
  case ACCESS_OBJECT:
    fprintf(out, "{\"kind\": \"object\", \"object\": %" PRIu64 ", \"granule\": %" PRId64 "}\n", item->object,
            item->granule);
    break;
  case ACCESS_BURST:
    fprintf(out, "{\"kind\": \"burst %s\"}\n", item->value ? "begins" : "ends");
    break;
  default:
    fprintf(out, "{\"kind\": \"other\", \"granule\": %" PRId64 "}\n", item->granule);
  }
}

static int print_all(struct trace_access_cursor *cursor, enum dump_format format, FILE *out) {
  struct access_item item;
  uint64_t acquired = 0;
  int got;
  if (format == DUMP_CSV)
    fputs("kind,thread,acquires,stack_pointer,object,granule\n", out);
  while ((got = trace_access_cursor_next(cursor, &item)) > 0 && !ferror(out)) {
    if (format == DUMP_TEXT)
      print_access_text(out, &item, acquired);
    else if (format == DUMP_CSV)
      print_access_csv(out, &item);
    else
      print_access_jsonl(out, &item);
    acquired += item.kind == ACCESS_EVENT && item.acquires;
  }
  return got;
}

int dump_accesses(const struct trace_reader *reader, enum dump_format format, FILE *out, const char *out_name,
                  struct error *error) {
  struct trace_access_cursor *cursor;
  if (trace_reader_requires_accesses(reader, error) != 0)
    return -1;
  if (trace_access_cursor_open(&cursor, reader, error) != 0)
    return -1;
  int result = print_all(cursor, format, out);
  trace_access_cursor_close(cursor);
  if (result < 0)
    return -1;
  return fflush(out) == 0 && !ferror(out) ? 0 : error_errno(error, out_name, "can't write");
}
