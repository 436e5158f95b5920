#include "convert/inspect/dump_workload.h"

#include "convert/history/merge.h"
#include "core/base/buffer.h"
#include "core/trace/event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* An op with all words that belong to it. */
struct op {
  uint64_t position, size_bytes, param, time_ns;
  uint32_t thread, slot;
  uint64_t touched; /* OS pages plus 1; 0: not known */
  uint64_t region;  /* memory apart; 0: none */
  uint8_t call;
  bool has_time;
  struct buffer waits, starts; /* words */
};

struct dumper {
  const struct workload *workload;
  struct error *error;
  struct workload_stream *streams; /* of the threads */
  struct output_stream out;
  struct op op;
};

static size_t word_count(const struct buffer *words) {
  return words->used / sizeof(uint64_t);
}
static uint64_t word_at(const struct buffer *words, size_t number) {
  return ((const uint64_t *)(const void *)words->bytes)[number];
}

/* START words right after an op are carried out with it. */
static void take_prompt_starts(struct workload_stream *stream, struct op *op) {
  while ((stream->at != stream->end || workload_stream_refill(stream)) && word_code(*stream->at) == WORD_START)
    buffer_append_u64(&op->starts, *stream->at++);
}

static int wrong(const struct dumper *dumper, const struct workload_stream *stream, const char *what) {
  uint64_t offset = stream->at ? workload_stream_offset(stream) : dumper->workload->header.extents_offset;
  return error_at(dumper->error, dumper->workload->path, offset, "%s", what);
}

/* Walks to the end of the thread's next op. */
static int take_op(struct dumper *dumper, uint32_t thread) {
  struct workload_stream *stream = &dumper->streams[thread];
  struct op *op = &dumper->op;
  uint64_t word, size_high = 0;
  op->param = 1;
  op->touched = op->region = 0;
  op->has_time = false;
  op->waits.used = op->starts.used = 0;
  op->thread = thread;
  while (workload_stream_next(stream, &word)) {
    switch (word_code(word)) {
    case WORD_SIZE_HIGH:
      size_high = word_payload(word);
      break;
    case WORD_PARAM:
      op->param = word_payload(word);
      break;
    case WORD_TOUCHED:
      op->touched = word_payload(word);
      break;
    case WORD_APART:
      op->region = word_payload(word);
      break;
    case WORD_WAIT:
      buffer_append_u64(&op->waits, word);
      break;
    case WORD_START:
      buffer_append_u64(&op->starts, word);
      break;
    case WORD_TIME:
      op->time_ns = word_payload(word);
      op->has_time = true;
      break;
    case WORD_MARK:
      break;
    case WORD_END:
      return wrong(dumper, stream, "the stream ends before the schedule does");
    default:
      op->call = word_code(word);
      if (!trace_call_is_legal(op->call))
        return wrong(dumper, stream, "not an op");
      op->slot = word_slot(word);
      op->size_bytes = size_high << 24 | word_size_low(word);
      take_prompt_starts(stream, op);
      return op->waits.failed || op->starts.failed ? wrong(dumper, stream, "out of memory") : 0;
    }
  }
  return wrong(dumper, stream, "the stream ends without END");
}

/* "0:12,3:4" of waits, "1,2" of starts; or as JSON. */
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

static void print_text(FILE *out, const struct op *op) {
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

static void print_csv(FILE *out, const struct op *op) {
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

static void print_jsonl(FILE *out, const struct op *op) {
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

static int dump_ops(struct dumper *dumper, const struct dump_options *options) {
  void (*const print[])(FILE *, const struct op *) = {print_text, print_csv, print_jsonl};
  const struct workload_header *header = &dumper->workload->header;
  struct workload_stream schedule;
  uint64_t run;
  workload_stream_open(&schedule, dumper->workload, header->threads);
  while (workload_stream_next(&schedule, &run)) {
    uint32_t thread = (uint32_t)run;
    if (thread >= header->threads)
      return wrong(dumper, &schedule, "the schedule names a thread that is not there");
    for (uint64_t ops = run >> 32; ops > 0; ops--, dumper->op.position++) {
      if (take_op(dumper, thread) != 0)
        return -1;
      if (options->thread == MERGE_ALL_THREADS || options->thread == thread)
        print[options->format](dumper->out.file, &dumper->op);
    }
    if (ferror(dumper->out.file))
      return error_errno(dumper->error, dumper->out.name, "can't write");
  }
  for (uint32_t i = 0; i < header->threads; i++)
    if (!workload_stream_next(&dumper->streams[i], &run) || word_code(run) != WORD_END)
      return wrong(dumper, &dumper->streams[i], "words are left, or no END, when the schedule ends");
  return 0;
}

int dump_workload(const struct workload *workload, const struct dump_options *options, struct output_stream out,
                  struct error *error) {
  const struct workload_header *header = &workload->header;
  struct dumper dumper = {.workload = workload, .error = error, .out = out};
  dumper.streams = calloc(header->threads + 1u, sizeof *dumper.streams);
  if (!dumper.streams)
    return error_set(error, workload->path, "out of memory");
  for (uint32_t i = 0; i < header->threads; i++)
    workload_stream_open(&dumper.streams[i], workload, i);
  if (options->format == DUMP_TEXT)
    fprintf(out.file, "# heaptape workload: %" PRIu64 " ops of %" PRIu32 " threads, %" PRIu32 " slots\n", header->ops,
            header->threads, header->slots);
  if (options->format == DUMP_CSV)
    fputs("position,thread,call,slot,size_bytes,param,null,frees,waits,starts,time_ns,touched_os_pages,apart\n",
          out.file);
  int result = dump_ops(&dumper, options);
  if (fflush(out.file) != 0 && result == 0)
    result = error_errno(error, out.name, "can't write");
  buffer_free(&dumper.op.waits);
  buffer_free(&dumper.op.starts);
  free(dumper.streams);
  return result;
}
