/* SPDX-License-Identifier: MIT */
#include "convert/compile/compile.h"

#include "convert/compile/info.h"
#include "convert/compile/reused.h"
#include "core/workload/slots.h"
#include "core/workload/touched_words.h"
#include "core/workload/waits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
  struct reused reused;
  struct compile_info *info;
  struct compile_added added;
  const char *path;
  struct error *error;
};

static int compiler_fail(struct compiler *compiler, const struct history_op *op, const char *what) {
  return error_set(compiler->error, compiler->path, "thread %" PRIu32 ": %s: %s", op->thread,
                   call_table[op->call & CALL_ID_MASK].name, what);
}

/* What was touched of an object since it was resized, in the parts that it got; if that has no room there, what was
   touched of it in all. An object that moved and has as many OS pages as the old one had bytes for may have been
   copied: then those of the copy are not the program's. */
static struct touched touched_since_resize(const struct touched_word *word, struct touched touched) {
  unsigned shift = touched_part_shift(word->bytes);
  uint64_t part = 1ull << shift, copied = word->old_bytes / TOUCH_STEP_BYTES;
  uint32_t old_parts = touched_prefix(word->old_bytes & -part, shift);
  uint32_t got_parts = touched_prefix(word->bytes, shift) & ~old_parts;
  bool may_be_copy = word->moved && touched.os_pages >= copied && (touched.parts & old_parts) == old_parts;
  uint64_t had = may_be_copy && copied > word->had ? copied : word->had;
  struct touched since = {touched.os_pages > had ? (uint32_t)(touched.os_pages - had) : 0, touched.parts & got_parts};
  since.parts = since.os_pages == 0 ? 0 : since.parts ? since.parts : got_parts;
  bool room = (uint64_t)since.os_pages * TOUCH_STEP_BYTES <= (uint64_t)__builtin_popcount(since.parts) << shift;
  return room && (uint32_t)__builtin_popcount(since.parts) <= since.os_pages ? since : touched;
}

/* A map that can't be the object's means nothing (core/trace/FORMAT.md). */
static void patch_touched(struct compiler *compiler, const struct touched_word *word, struct touched touched) {
  uint32_t resident = touched.os_pages;
  touched.os_pages = reused_touched(&compiler->reused, word->bytes, word->reused, resident);
  uint64_t estimated = touched.os_pages < resident ? TOUCHED_ESTIMATED : 0;
  if (!touched_is_possible(word->bytes, touched))
    touched.parts = 0;
  if (word->old_bytes && word->bytes >= TOUCHED_PARTS_MIN_BYTES)
    touched = touched_since_resize(word, touched);
  workload_patch_touched(compiler->writer, word->thread, word->offset,
                         touched_payload(touched.os_pages + 1ull, touched.parts) | estimated);
}

/* TOUCHED words: patches the word of the released object, reserves one for the acquired object. */
static bool note_touched(struct compiler *compiler, const struct history_op *op, uint32_t thread, uint64_t old_bytes) {
  bool releases = op->kind == HISTORY_RELEASE || op->kind == HISTORY_MOVE;
  bool acquires = op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE;
  struct touched_word word = {0}, next = {.bytes = op->request_bytes, .thread = thread};
  if (releases && old_bytes >= TOUCHED_MIN_BYTES && touched_words_take(&compiler->touched, op->slot, &word) &&
      op->touched_os_pages) {
    patch_touched(compiler, &word, (struct touched){op->touched_os_pages - 1, op->touched_parts});
    next.old_bytes = old_bytes < op->request_bytes ? old_bytes : 0;
    next.had = op->touched_os_pages - 1 > word.had ? op->touched_os_pages - 1 : word.had;
    next.moved = op->event && op->event->released != op->event->acquired;
  }
  if (!acquires || op->request_bytes < TOUCHED_MIN_BYTES)
    return true;
  if (op->event)
    next.reused = reused_acquire(&compiler->reused, op->event->acquired, op->request_bytes);
  if (op->kind == HISTORY_MOVE || !op->event) /* what a copy touched is not known by its size */
    next.reused = REUSED_UNKNOWN;
  next.offset = workload_put_touched(compiler->writer, thread);
  return touched_words_put(&compiler->touched, op->slot, &next);
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
  if (thread->number == THREAD_NONE) {
    if (compiler->thread_count == WORKLOAD_MAX_THREADS)
      return compiler_fail(compiler, op, "more threads than a workload can hold");
    thread->number = compiler->thread_count++;
  }
  uint32_t number = thread->number;
  for (struct compile_file *file = compiler->added.files; file; file = file->next)
    if (file->op(file, op, number, compiler->error) != 0)
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
  for (struct compile_file *file = compiler->added.files; file; file = file->next)
    if (file->left_out(file, step) != 0)
      return -1;
  return 0;
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
  const char *allocator = compiler->info->trace.allocator;
  bool is_glibc = strcmp(allocator, "libc.so.6") == 0 || strncmp(allocator, "libc-2.", 7) == 0;
  if (!compiler->threads || !touched_words_init(&compiler->touched) || !reused_init(&compiler->reused, is_glibc))
    return error_set(error, compiler->path, "out of memory");
  for (uint32_t i = 0; i < threads; i++)
    compiler->threads[i].number = THREAD_NONE;
  const struct history_consumer consumer = {.context = compiler,
                                            .op = compile_op,
                                            .left_out = compile_left_out,
                                            .thread_end = compile_thread_end,
                                            .touched_at_end = compile_touched_at_end};
  struct rewriting *rewriting = compiler->added.rewriting;
  if (!rewriting)
    return history_run(reader, options, &consumer, witness, error);
  rewriting->reader = reader;
  rewriting->options = options;
  int result = rewriting->run(rewriting, &consumer, witness, error);
  compiler->info->rewritten = rewriting->about;
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
  compiler->info->estimated_bytes = compiler->reused.estimated_bytes;
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
  for (struct compile_file *file = outputs->added.files; file; file = file->next)
    if (file->open(file, reader, compiler->error) != 0)
      return -1;
  if (compile_history(compiler, reader, options, witness, compiler->error) != 0)
    return -1;
  witness->arguments_changed = compiler->info->changed;
  compiler->info->added = json_object();
  for (struct compile_file *file = outputs->added.files; file; file = file->next)
    if (file->end && file->end(file, compiler->info->added, compiler->error) != 0)
      return -1;
  return 0;
}

int compile_trace(struct trace_reader *reader, struct compile_outputs *outputs, const struct history_options *options,
                  struct witness *witness, struct error *error) {
  struct error history_error = {0};
  struct compiler compiler = {.path = trace_reader_path(reader), .error = &history_error, .added = outputs->added};
  if (workload_writer_open(&compiler.writer, outputs->workload, error) != 0)
    return -1;
  int result = run(&compiler, reader, outputs, options, witness);
  if (result == 0 && witness->truncated && witness->events == 0)
    result =
        error_set(&history_error, compiler.path, "is truncated before its first event: there is nothing to replay");
  if (result == 0) {
    result = finish(&compiler, witness, error);
    for (struct compile_file *file = outputs->added.files; result == 0 && file; file = file->next)
      result = file->finish ? file->finish(file, outputs->workload, error) : 0;
  } else {
    /* A full disk shows as a refused op; the writer has the reason. */
    workload_writer_fail_reason(compiler.writer, error);
    workload_writer_abandon(compiler.writer);
    if (!error->text[0])
      *error = history_error;
  }
  if (outputs->added.rewriting)
    json_decref(outputs->added.rewriting->about);
  for (struct compile_file *file = outputs->added.files; file; file = file->next)
    file->close(file);
  if (compiler.info)
    json_decref(compiler.info->added);
  compile_info_free(compiler.info);
  touched_words_free(&compiler.touched);
  reused_free(&compiler.reused);
  free(compiler.threads);
  return result;
}
