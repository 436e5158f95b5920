/* SPDX-License-Identifier: MIT */
#include "convert/formats/exporting.h"

#include "convert/history/trace_info.h"
#include "core/base/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The object in a slot. */
struct object {
  uint64_t address, number, release_ns;
  uint32_t last_thread;
  bool split; /* its realloc was already written as a free */
};

struct run {
  struct export *export;
  VECTOR(struct object) objects; /* by slot */
  uint64_t numbers, os_page_bytes;
  uint32_t *moving; /* by thread: slot of the object between the steps of a realloc; SLOTS_NONE: none */
  uint32_t moving_count, threads;
  uint64_t last_ns; /* of the previous step, and its thread */
  uint32_t last_thread;
};

int export_write_failed(const struct export *export) {
  return error_errno(export->error, export->out_name, "can't write");
}

/* The time of a step, raised where the order was repaired, or where steps of two threads have the same time, so that a
   reader of the times finds the same order. */
static uint64_t order_ns(struct run *run, uint32_t thread, uint64_t stamp) {
  uint64_t ns = (uint64_t)trace_stamp_ns(trace_reader_summary(run->export->reader), stamp);
  uint64_t least = run->last_ns + (thread != run->last_thread);
  run->last_ns = ns < least ? least : ns;
  run->last_thread = thread;
  return run->last_ns;
}

static struct object *object_of(struct run *run, const struct slots *slots, uint32_t slot) {
  return vector_reach(&run->objects, slots->room - 1) ? &run->objects.at[slot] : NULL;
}

static enum export_kind kind_of(uint8_t call) {
  const struct call_info *info = &call_table[call & CALL_ID_MASK];
  if (!info->acquires)
    return EXPORT_FREE;
  if (info->released != NOTHING)
    return EXPORT_REALLOC;
  if (info->param == COUNT)
    return EXPORT_CALLOC;
  return info->param == ALIGN || (call & CALL_ID_MASK) == CALL_valloc || (call & CALL_ID_MASK) == CALL_pvalloc
             ? EXPORT_ALIGNED
             : EXPORT_MALLOC;
}

/* The fields of a call that do not depend on objects. */
static struct export_call call_of(const struct run *run, uint8_t id, uint32_t thread, uint64_t size_bytes,
                                  uint64_t param) {
  struct export_call call = {.kind = kind_of(id), .call = id, .thread = thread, .bytes = size_bytes};
  if (call_table[id & CALL_ID_MASK].param == COUNT) {
    call.size_bytes = size_bytes;
    call.count = param;
    if (__builtin_mul_overflow(size_bytes, param, &call.bytes))
      call.bytes = UINT64_MAX;
  }
  if (call.kind == EXPORT_ALIGNED)
    call.alignment = call_table[id & CALL_ID_MASK].param == ALIGN ? param : run->os_page_bytes;
  return call;
}

static int write_free(struct run *run, const struct object *object, uint32_t thread, uint64_t time_ns) {
  struct export_call call = call_of(run, CALL_free, thread, 0, 0);
  call.released = object->address;
  call.released_number = object->number;
  call.last_thread = object->last_thread;
  call.release_ns = call.acquire_ns = time_ns;
  return run->export->take(run->export, &call);
}

/* Writes the release of the realloc that the thread is in, now, as a free. */
static int split(struct run *run, uint32_t thread) {
  uint32_t slot = run->moving[thread];
  if (slot == SLOTS_NONE || run->objects.at[slot].split)
    return 0;
  run->objects.at[slot].split = true;
  run->export->lost.split_reallocs++;
  return write_free(run, &run->objects.at[slot], thread, run->objects.at[slot].release_ns);
}

/* An address is handed out. If it was the old address of a realloc under way, and the format has one line per realloc,
   which comes later, that realloc is split. */
static int split_overtaken(struct run *run, uint64_t address) {
  for (uint32_t thread = 0; thread < run->threads; thread++) {
    uint32_t slot = run->moving[thread];
    if (slot != SLOTS_NONE && run->objects.at[slot].address == address && split(run, thread) != 0)
      return -1;
  }
  return 0;
}

static int take_op(void *context, const struct history_op *op, struct slots *slots) {
  struct run *run = context;
  if (op->kind == HISTORY_TOUCH) {
    run->export->lost.usable_sizes++;
    return 0;
  }
  struct export_call call = call_of(run, op->call, op->thread, op->size_bytes, op->param);
  if (!op->event && split(run, op->thread) != 0) /* an implied free can't be inside its thread's realloc */
    return -1;
  call.release_ns = call.acquire_ns = order_ns(run, op->thread, op->stamp);
  if (op->kind == HISTORY_NOTHING)
    return run->export->take(run->export, &call);
  struct object *object = object_of(run, slots, op->slot);
  if (!object)
    return error_set(run->export->error, trace_reader_path(run->export->reader), "out of memory");
  if (op->kind == HISTORY_RELEASE) {
    int result = write_free(run, object, op->thread, call.release_ns);
    *object = (struct object){0};
    return result;
  }
  if (op->kind == HISTORY_MOVE) {
    run->moving[op->thread] = SLOTS_NONE;
    run->moving_count--;
  }
  if (run->moving_count && run->export->one_line_reallocs && split_overtaken(run, op->event->acquired) != 0)
    return -1;
  if (op->kind == HISTORY_MOVE && !object->split) {
    call.released = object->address;
    call.released_number = object->number;
    call.last_thread = object->last_thread;
    call.release_ns = object->release_ns;
  }
  *object = (struct object){.address = op->event->acquired, .number = ++run->numbers, .last_thread = op->thread};
  call.acquired = object->address;
  call.number = object->number;
  return run->export->take(run->export, &call);
}

static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  (void)slot;
  struct run *run = context;
  struct export *export = run->export;
  if (!(step->event->call & CALL_NULL_OUT))
    return 0;
  if ((step->traits & EVENT_TAKES) || !export->keeps_failures) {
    export->lost.failures++;
    return 0;
  }
  struct export_call call = call_of(run, step->event->call, step->thread, step->event->size_bytes, step->event->param);
  call.release_ns = call.acquire_ns = order_ns(run, step->thread, step->stamp);
  return export->take(export, &call);
}

static int move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  struct run *run = context;
  run->objects.at[slot].release_ns = order_ns(run, step->thread, step->stamp);
  run->moving[step->thread] = slot;
  run->moving_count++;
  return 0;
}

static void end_thread(void *context, uint32_t thread) {
  struct run *run = context;
  if (run->export->thread_end)
    run->export->thread_end(run->export, thread);
}

int export_calls(struct export *export, struct witness *witness) {
  struct trace_info info;
  struct run run = {.export = export, .threads = trace_reader_summary(export->reader)->threads};
  const struct history_consumer consumer = {
      .context = &run, .op = take_op, .thread_end = end_thread, .left_out = take_left_out, .move_begins = move_begins};
  trace_info_read(&info, trace_reader_summary(export->reader)->info_json);
  run.os_page_bytes = info.os_page_bytes;
  trace_info_free(&info);
  run.moving = malloc((run.threads + 1) * sizeof *run.moving);
  if (!run.moving)
    return error_set(export->error, trace_reader_path(export->reader), "out of memory");
  memset(run.moving, 0xff, (run.threads + 1) * sizeof *run.moving); /* SLOTS_NONE */
  int result = history_run(export->reader, export->history, &consumer, witness, export->error);
  free(run.moving);
  free(run.objects.at);
  return result;
}

static void add_lost(struct text_line *report, uint64_t count, const char *what) {
  if (count)
    text_add(report, "%s%" PRIu64 " %s", report->used ? ", " : "", count, what);
}

int export_trace(const struct export_job *job, struct text_line *report, struct error *error) {
  struct export export = {
      .reader = job->reader, .out = job->out.file, .out_name = job->out.name, .history = job->history, .error = error};
  *report = (struct text_line){.used = 0};
  if (job->format->run(&export) != 0)
    return -1;
  if (fflush(export.out) != 0 || ferror(export.out))
    return export_write_failed(&export);
  add_lost(report, export.lost.usable_sizes, "calls of malloc_usable_size left out");
  add_lost(report, export.lost.failures, "failed calls left out");
  add_lost(report, export.lost.null_frees, "frees of NULL left out");
  add_lost(report, export.lost.split_reallocs, "reallocs written as free and malloc");
  return 0;
}
