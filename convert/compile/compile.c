/* SPDX-License-Identifier: MIT */
/* Writes the file of data accesses that belongs to a workload (WORKLOAD.md, accesses): one EVENT item for each op, in
   the workload's order; between them the accesses that the program made there, with objects named by their slots; then
   the recording's totals.

   Calls that are not ops (failed calls, releases of objects never seen, calls counted by a gap) have no item. Not its
   job: the order (convert/history/history.h). Not thread-safe. */
#include "convert/compile/compile.h"

#include "convert/history/history.h"
#include "convert/history/trace_info.h"
#include "core/base/json.h"
#include "core/trace/access_stream.h"
#include "core/trace/layout.h"
#include "core/trace/summary.h"
#include "core/workload/slots.h"
#include "core/workload/statistics.h"
#include "core/workload/witness.h"

#include <inttypes.h>
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

static void compile_accesses_free(struct compile_accesses *accesses) {
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

/* Creates or truncates path. Returns 0, or -1 with error, also if the trace has no accesses. */
static int compile_accesses_open(struct compile_accesses **out, struct trace_reader *reader, const char *path,
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

/* After the last op: completes the file and fills in counts. Returns 0, or -1 with the error given to open. */
static int compile_accesses_finish(struct compile_accesses *accesses, struct access_order_counts *counts) {
  if (access_order_finish(accesses->order) != 0 || put_totals(accesses) != 0 || write_out(accesses) != 0)
    return -1;
  FILE *out = accesses->out;
  accesses->out = NULL;
  *counts = *access_order_counts(accesses->order);
  return fclose(out) == 0 ? 0 : error_errno(accesses->error, accesses->path, "can't write");
}

/* What a workload records about its trace besides the ops: the time line, the request sizes, the recorded process's
   memory, the calls (WORKLOAD.md: time line, info JSON). Fed op by op; memory is bounded by constants. Not
   thread-safe. */

struct compile_info {
  struct trace_reader *reader;
  struct trace_info trace;
  uint32_t slots;
  uint64_t calls[CALL_LIMIT];
  struct size_histogram sizes;
  struct recorded_samples samples;
  uint64_t stamp;   /* highest so far */
  uint64_t changed; /* ops of which an argument was changed */
  struct time_line time_line;
  const struct access_order_counts *compiled; /* NULL: no accesses were compiled */
  json_t *rewritten;                          /* what a rewriting did; owned by the rewriter. NULL: none */
};

static void compile_info_free(struct compile_info *info) {
  if (!info)
    return;
  trace_info_free(&info->trace);
  free(info);
}

static struct compile_info *compile_info_new(struct trace_reader *reader, struct error *error) {
  struct compile_info *info = calloc(1, sizeof *info);
  if (!info) {
    error_set(error, trace_reader_path(reader), "out of memory");
    return NULL;
  }
  const struct trace_summary *summary = trace_reader_summary(reader);
  info->reader = reader;
  info->time_line.interval = summary->events / TIME_LINE_POINTS + 1;
  trace_info_read(&info->trace, summary->info_json);
  if (recorded_samples_load(&info->samples, reader, error) != 0) {
    compile_info_free(info);
    return NULL;
  }
  return info;
}

/* Recorded time of the op passed last, in ns from the beginning of the recording; 0 if times are not known. */
static uint64_t compile_info_time_ns(const struct compile_info *info) {
  return (uint64_t)trace_stamp_ns(trace_reader_summary(info->reader), info->stamp);
}

static void compile_info_point(struct compile_info *info, uint64_t position, const struct history_state *before) {
  time_line_op(&info->time_line, &(struct workload_time_point){position, compile_info_time_ns(info), before->live_bytes,
                                                               before->live_objects});
}

static inline void compile_info_op(struct compile_info *info, uint64_t position, const struct history_op *op) {
  if (op->stamp > info->stamp) /* a repaired inversion has an older one */
    info->stamp = op->stamp;
  if (position == info->time_line.next_point || op->before->live_bytes > info->time_line.peak.live_bytes)
    compile_info_point(info, position, op->before);
  recorded_samples_advance(&info->samples, info->stamp, position);
  info->calls[op->call & CALL_ID_MASK]++;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    size_histogram_add(&info->sizes, op->request_bytes);
}

/* After the last op; the points belong to info. */
static const struct workload_time_point *compile_info_time_line(struct compile_info *info,
                                                                const struct witness *witness, size_t *count) {
  if (info->samples.seen > 0 && info->samples.last.stamp > info->stamp) /* the program may idle to its end */
    info->stamp = info->samples.last.stamp;
  const struct workload_time_point end = {witness->ops, compile_info_time_ns(info), witness->live_bytes_at_end,
                                          witness->live_at_end};
  recorded_samples_advance(&info->samples, UINT64_MAX, witness->ops);
  return time_line_finish(&info->time_line, &end, count);
}

static void set_string(json_t *object, const char *key, const char *value) {
  if (value[0])
    json_object_set_new(object, key, json_string(value));
}

static json_t *accesses_json(const struct compile_info *info) {
  const struct trace_summary *summary = trace_reader_summary(info->reader);
  const struct trace_access_totals *totals = &summary->accesses;
  json_t *object = json_object();
  json_set_count(object, "granule_bytes", ACCESS_GRANULE_BYTES);
  json_set_count(object, "filter_bytes", summary->access_filter_bytes);
  for (int total = 0; total < ACCESS_TOTAL_LIMIT; total++)
    if (totals->known[total])
      json_set_count(object, access_total_names[total], totals->counted[total]);
  if (totals->in_bursts)
    json_set_count(object, "bursts", (totals->switches + 1) / 2);
  if (totals->lost)
    json_set_count(object, "lost_in_trace", totals->lost);
  if (info->compiled) {
    json_set_count(object, "objects", info->compiled->objects);
    json_set_count(object, "other", info->compiled->other);
    json_set_count(object, "lost", info->compiled->lost);
    json_set_count(object, "ops_without_call", info->compiled->ops_without_call);
  }
  return object;
}

/* The info JSON, to be freed; NULL if there is no memory. */
static char *compile_info_json(struct compile_info *info, const struct witness *witness) {
  static const char *const kept[] = {"allocator_version", "allocator_build_id", "settings", "libraries"};
  json_t *object = json_object();
  const struct trace_info *trace = &info->trace;
  set_string(object, "name", trace->program);
  set_string(object, "program", trace->program);
  set_string(object, "source", trace->source);
  set_string(object, "allocator", trace->allocator);
  json_set_count(object, "os_page_bytes", trace->os_page_bytes);
  json_object_set(object, "lacks", trace->lacks);
  for (size_t key = 0; key < sizeof kept / sizeof *kept; key++)
    json_object_set(object, kept[key], json_object_get(trace->json, kept[key]));
  json_object_set_new(object, "calls", call_counts_json(info->calls));
  json_object_set_new(object, "witness", witness_json(witness));
  json_object_set_new(object, "request_sizes", size_histogram_json(&info->sizes));
  json_object_set_new(object, "recorded", recorded_samples_json(&info->samples));
  if (trace_reader_summary(info->reader)->accesses.recorded)
    json_object_set_new(object, "accesses", accesses_json(info));
  if (info->rewritten)
    json_object_update(object, info->rewritten);
  char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(12));
  json_decref(object);
  return text;
}

#define THREAD_NONE UINT32_MAX

struct compile_thread {
  uint32_t number;         /* in the workload; THREAD_NONE until its first op */
  uint64_t untimed_before; /* stamp: ops before it need no TIME word */
  struct waits waits;
};

struct compiler {
  struct workload_writer *writer;
  struct compile_thread *threads; /* by number in the trace */
  uint32_t thread_count;          /* in the workload */
  struct touched_words touched;
  struct compile_info *info;
  struct compile_accesses *accesses; /* NULL: not wanted */
  struct origins_writer *origins;    /* likewise */
  struct rewriting *rewriting;       /* NULL: none */
  const char *path;
  struct error *error;
};

static int compiler_fail(struct compiler *compiler, const struct history_op *op, const char *what) {
  return error_set(compiler->error, compiler->path, "thread %" PRIu32 ": %s: %s", op->thread,
                   call_table[op->call & CALL_ID_MASK].name, what);
}

/* A map that can't be the object's means nothing (core/trace/FORMAT.md). */
static void patch_touched(struct compiler *compiler, const struct touched_word *word, struct touched touched) {
  if (!touched_is_possible(word->bytes, touched))
    touched.parts = 0;
  workload_patch_touched(compiler->writer, word->thread, word->offset,
                         touched_payload(touched.os_pages + 1ull, touched.parts));
}

/* TOUCHED words: patches the word of the released object, reserves one for the acquired object. */
static bool note_touched(struct compiler *compiler, const struct history_op *op, uint32_t thread, uint64_t old_bytes) {
  bool releases = op->kind == HISTORY_RELEASE || op->kind == HISTORY_MOVE;
  bool acquires = op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE;
  struct touched_word word;
  if (releases && old_bytes >= TOUCHED_MIN_BYTES && touched_words_take(&compiler->touched, op->slot, &word) &&
      op->touched_os_pages)
    patch_touched(compiler, &word, (struct touched){op->touched_os_pages - 1, op->touched_parts});
  if (!acquires || op->request_bytes < TOUCHED_MIN_BYTES)
    return true;
  word = (struct touched_word){workload_put_touched(compiler->writer, thread), op->request_bytes, thread};
  return touched_words_put(&compiler->touched, op->slot, &word);
}

/* glibc rounds an alignment up as well, and other allocators need not take it. */
static uint64_t power_of_two(uint64_t alignment, uint64_t most) {
  uint64_t power = 1;
  while (power < alignment && power <= most / 2)
    power *= 2;
  return power;
}

/* The op's arguments, changed where a workload must not have them. */
static void fit_op(struct compiler *compiler, const struct history_op *op, const struct slot *slot,
                   struct workload_op *fitted) {
  const struct call_info *info = &call_table[op->call & CALL_ID_MASK];
  const uint64_t max_size = (1ull << 63) - 1, max_param = (1ull << 56) - 1;
  fitted->size_bytes = op->size_bytes > max_size ? max_size : op->size_bytes;
  fitted->param = op->param > max_param ? max_param : op->param;
  if (info->param == ALIGN)
    fitted->param = power_of_two(op->param, max_param);
  if (slot && call_states_size(op->call))
    fitted->size_bytes = slot->size_bytes;
  compiler->info->changed += fitted->size_bytes != op->size_bytes || fitted->param != op->param;
}

/* Puts a TIME word if one is due, and computes the stamp from which the next may be due: nine tenths of the interval,
   as times are rounded. So most ops need no division. */
static __attribute__((noinline)) void put_time(struct compiler *compiler, struct compile_thread *thread) {
  const struct compile_info *info = compiler->info;
  uint64_t time_ns = compile_info_time_ns(info);
  uint64_t next_ns = workload_put_time(compiler->writer, thread->number, time_ns);
  double hz = trace_reader_summary(info->reader)->clock_hz;
  double stamps = hz > 0 ? 0.9 * (double)(next_ns - time_ns) * hz / 1e9 : 0x1p63;
  if (!(stamps < 0x1p63) || __builtin_add_overflow(info->stamp, (uint64_t)stamps, &thread->untimed_before))
    thread->untimed_before = UINT64_MAX;
}

/* Puts the words of the op and of what must come before it. Returns the thread's number of ops, or 0. */
static __attribute__((noinline)) uint64_t put_words(struct compiler *compiler, const struct history_op *op,
                                                    const struct slot *slot) {
  struct workload_writer *writer = compiler->writer;
  struct compile_thread *thread = &compiler->threads[op->thread];
  struct workload_op put = {.call = op->call, .slot = op->slot, .region = op->region};
  fit_op(compiler, op, slot, &put);
  if (workload_begin_op(writer, thread->number) != 0)
    return 0; /* the writer has the reason, and reports it when it is closed */
  if (compiler->info->stamp >= thread->untimed_before)
    put_time(compiler, thread);
  if (slot) {
    waits_put(&thread->waits, writer, thread->number, slot->last);
    if (!note_touched(compiler, op, thread->number, slot->size_bytes)) {
      compiler_fail(compiler, op, "out of memory");
      return 0;
    }
  }
  return workload_put_op(writer, thread->number, &put);
}

/* Does the op take only one word, if the writer has nothing else to put? */
static inline bool is_plain(const struct compiler *compiler, const struct history_op *op,
                            const struct compile_thread *thread, const struct slot *slot) {
  return (op->size_bytes | op->request_bytes | slot->size_bytes) < TOUCHED_MIN_BYTES &&
         !(call_traits[op->call] & CALL_HAS_PARAM) && !op->region && waits_none(thread->number, slot->last) &&
         compiler->info->stamp < thread->untimed_before &&
         (!call_states_size(op->call) || op->size_bytes == slot->size_bytes);
}

static int compile_op(void *context, const struct history_op *op, struct slots *slots) {
  struct compiler *compiler = context;
  struct workload_writer *writer = compiler->writer;
  struct compile_thread *thread = &compiler->threads[op->thread];
  if (compiler->accesses && access_order_op(compiler->accesses->order, op) != 0)
    return -1;
  if (thread->number == THREAD_NONE) {
    if (compiler->thread_count == WORKLOAD_MAX_THREADS)
      return compiler_fail(compiler, op, "more threads than a workload can hold");
    thread->number = compiler->thread_count++;
  }
  uint32_t number = thread->number;
  if (compiler->origins && origins_writer_op(compiler->origins, op, number, compiler->error) != 0)
    return -1;
  compile_info_op(compiler->info, workload_position(writer), op);
  struct slot *slot = op->slot == SLOTS_NONE ? NULL : &slots->at[op->slot];
  uint64_t ops = 0;
  if (slot && is_plain(compiler, op, thread, slot))
    ops = workload_put_plain_op(writer, number, word_op(op->call, op->size_bytes, op->slot));
  if (!ops && !(ops = put_words(compiler, op, slot)))
    return -1;
  if (slot)
    slot->last = waits_last(number, ops);
  compiler->info->slots = slots->count;
  return 0;
}

static int compile_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  (void)slot;
  struct compiler *compiler = context;
  if (compiler->origins)
    origins_writer_left_out(compiler->origins, step);
  return compiler->accesses ? access_order_left_out(compiler->accesses->order, step, false) : 0;
}

static void compile_thread_end(void *context, uint32_t thread) {
  struct compiler *compiler = context;
  if (compiler->threads[thread].number != THREAD_NONE)
    workload_end_thread(compiler->writer, compiler->threads[thread].number);
}

static void compile_touched_at_end(void *context, uint32_t slot, struct touched touched) {
  struct compiler *compiler = context;
  struct touched_word word;
  if (touched_words_take(&compiler->touched, slot, &word))
    patch_touched(compiler, &word, touched);
}

static int compile_history(struct compiler *compiler, struct trace_reader *reader,
                           const struct history_options *options, struct witness *witness, struct error *error) {
  uint32_t threads = trace_reader_summary(reader)->threads;
  compiler->threads = calloc(threads + 1, sizeof *compiler->threads);
  compiler->info = compile_info_new(reader, error);
  if (!compiler->info)
    return -1;
  if (!compiler->threads || !touched_words_init(&compiler->touched))
    return error_set(error, compiler->path, "out of memory");
  for (uint32_t i = 0; i < threads; i++)
    compiler->threads[i].number = THREAD_NONE;
  const struct history_consumer consumer = {.context = compiler,
                                            .op = compile_op,
                                            .left_out = compile_left_out,
                                            .thread_end = compile_thread_end,
                                            .touched_at_end = compile_touched_at_end};
  if (!compiler->rewriting)
    return history_run(reader, options, &consumer, witness, error);
  int result = rewriting_run(compiler->rewriting, &consumer, witness, error);
  compiler->info->rewritten = compiler->rewriting->about;
  return result;
}

static int finish(struct compiler *compiler, const struct witness *witness, struct error *error) {
  struct workload_totals totals = {.slots = compiler->info->slots,
                                   .peak_live_bytes = witness->peak_live_bytes,
                                   .peak_live_os_page_bytes = witness->peak_live_os_page_bytes,
                                   .peak_live_objects = witness->peak_live_objects,
                                   .live_at_end = witness->live_at_end,
                                   .peak_position = witness->peak_position};
  size_t points;
  const struct workload_time_point *time_line = compile_info_time_line(compiler->info, witness, &points);
  char *json = compile_info_json(compiler->info, witness);
  int result = -1;
  if (time_line && json)
    result =
        workload_writer_close(compiler->writer, &totals, (struct workload_time_points){time_line, points}, json, error);
  else
    workload_writer_abandon(compiler->writer);
  free(json);
  return result == 0 ? 0 : error_set(error, compiler->path, "out of memory");
}

static int run(struct compiler *compiler, struct trace_reader *reader, struct compile_outputs *outputs,
               const struct history_options *options, struct witness *witness) {
  if (outputs->origins && origins_writer_open(&compiler->origins, reader, outputs->origins, compiler->error) != 0)
    return -1;
  if (outputs->accesses && compile_accesses_open(&compiler->accesses, reader, outputs->accesses, compiler->error) != 0)
    return -1;
  if (compile_history(compiler, reader, options, witness, compiler->error) != 0)
    return -1;
  witness->arguments_changed = compiler->info->changed;
  if (!compiler->accesses)
    return 0;
  compiler->info->compiled = &outputs->compiled;
  return compile_accesses_finish(compiler->accesses, &outputs->compiled);
}

int compile_trace(struct trace_reader *reader, struct compile_outputs *outputs, const struct history_options *options,
                  struct witness *witness, struct error *error) {
  struct error history_error = {""};
  struct compiler compiler = {
      .path = trace_reader_path(reader), .error = &history_error, .rewriting = outputs->rewriting};
  if (workload_writer_open(&compiler.writer, outputs->workload, error) != 0)
    return -1;
  int result = run(&compiler, reader, outputs, options, witness);
  if (result == 0 && witness->truncated && witness->events == 0)
    result =
        error_set(&history_error, compiler.path, "is truncated before its first event: there is nothing to replay");
  if (result == 0) {
    result = finish(&compiler, witness, error);
    if (result == 0 && compiler.origins)
      result = origins_writer_finish(compiler.origins, outputs->workload, outputs->fetch, error);
  } else {
    /* A full disk shows as a refused op; the writer has the reason. */
    workload_writer_fail_reason(compiler.writer, error);
    workload_writer_abandon(compiler.writer);
    if (!error->text[0])
      *error = history_error;
  }
  compile_info_free(compiler.info);
  compile_accesses_free(compiler.accesses);
  origins_writer_free(compiler.origins);
  touched_words_free(&compiler.touched);
  free(compiler.threads);
  return result;
}
