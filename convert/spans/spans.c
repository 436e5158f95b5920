/* SPDX-License-Identifier: MIT */
#include "convert/spans/spans.h"

#include "convert/spans/span_marks.h"
#include "convert/spans/span_sites.h"

#include <stdlib.h>
#include <string.h>

struct span {
  const char *name;
  bool ended;
  uint64_t allocations, allocated_bytes;
  uint64_t live_bytes, live_objects; /* of its own objects */
  uint64_t peak_bytes, peak_objects;
  uint64_t peak_op; /* the first op after which live_bytes was peak_bytes */
  json_t *peak_sites, *growth_sites;
};

struct counting {
  struct trace_reader *reader;
  struct error *error;
  const uint64_t *passed;
  struct span_marks marks;
  VECTOR(struct span_object) objects; /* by slot */
  size_t slots;                       /* slots that were in use */
  VECTOR(struct span) spans;
  uint32_t span; /* the number of the current one, from 1 on; 0: none */
  uint32_t begun;
  bool own;
  uint64_t op;
  struct span_sites *sites; /* NULL: not wanted, or not yet */
};

static int no_memory(const struct counting *counting) {
  return error_set(counting->error, trace_reader_path(counting->reader), "out of memory");
}

static struct span *current(const struct counting *counting) {
  return &counting->spans.at[counting->span - 1];
}

/* Returns the sites of the current span's live objects; NULL in the first run. */
static json_t *sites_now(const struct counting *counting) {
  if (!counting->sites)
    return NULL;
  return span_sites_json(counting->sites, counting->objects.at, counting->slots, counting->span);
}

static void end_span(struct counting *counting, bool ended) {
  if (!counting->span)
    return;
  struct span *span = current(counting);
  span->ended = ended;
  span->growth_sites = sites_now(counting);
  counting->span = 0;
  counting->own = false;
}

/* Begins a span; the second run finds those of the first. */
static int begin_span(struct counting *counting, const char *name) {
  if (counting->begun == counting->spans.count) {
    struct span *span = vector_add(&counting->spans);
    if (!span)
      return no_memory(counting);
    *span = (struct span){.name = name};
  }
  counting->span = ++counting->begun;
  struct span *span = current(counting);
  span->allocations = span->allocated_bytes = span->live_bytes = span->live_objects = 0;
  return 0;
}

static int take_turn(struct counting *counting, const struct span_mark *mark) {
  switch (mark->kind) {
  case SPAN_BEGIN:
    end_span(counting, false);
    return begin_span(counting, mark->name);
  case SPAN_OWN:
  case SPAN_REST:
    counting->own = counting->span && mark->kind == SPAN_OWN;
    return 0;
  default:
    end_span(counting, true);
    return 0;
  }
}

static int take_turns(struct counting *counting, uint32_t thread, uint64_t stamp) {
  const struct span_mark *mark;
  while ((mark = span_marks_turn(&counting->marks, thread, stamp)))
    if (take_turn(counting, mark) != 0)
      return -1;
  return 0;
}

static void forget(struct counting *counting, struct span_object *object) {
  if (counting->span && object->span == counting->span) {
    current(counting)->live_bytes -= object->size_bytes;
    current(counting)->live_objects--;
  }
  object->span = 0;
}

static void note_peak(struct counting *counting, struct span *span) {
  if (!counting->sites && span->live_bytes > span->peak_bytes) {
    span->peak_bytes = span->live_bytes;
    span->peak_objects = span->live_objects;
    span->peak_op = counting->op;
  }
  if (counting->sites && counting->op == span->peak_op && span->peak_bytes)
    span->peak_sites = sites_now(counting);
}

static void note_acquire(struct counting *counting, const struct history_op *op, struct span_object *object) {
  struct span *span = current(counting);
  *object = (struct span_object){.size_bytes = op->request_bytes,
                                 .span = counting->span,
                                 .stack = op->event ? op->event->stack : 0,
                                 .place = span_marks_place(&counting->marks, op->thread)};
  span->allocations++;
  span->allocated_bytes += op->request_bytes;
  span->live_bytes += op->request_bytes;
  span->live_objects++;
}

static int take_op(void *context, const struct history_op *op, const struct history_state *before,
                   struct slots *slots) {
  struct counting *counting = context;
  (void)before, (void)slots;
  if (take_turns(counting, op->thread, op->stamp) != 0)
    return -1;
  bool acquires = op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE;
  if (op->slot != SLOTS_NONE) {
    struct span_object *object = vector_reach(&counting->objects, op->slot);
    if (!object)
      return no_memory(counting);
    if (op->slot >= counting->slots)
      counting->slots = op->slot + 1ull;
    if (acquires || op->kind == HISTORY_RELEASE)
      forget(counting, object);
    if (acquires && counting->own)
      note_acquire(counting, op, object);
  }
  if (counting->span)
    note_peak(counting, current(counting));
  if (op->event)
    span_marks_passed(&counting->marks, op->thread);
  counting->op++;
  return 0;
}

static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct counting *counting = context;
  (void)slot;
  int result = take_turns(counting, step->thread, step->stamp);
  if (step->is_last)
    span_marks_passed(&counting->marks, step->thread);
  return result;
}

static int run(struct counting *counting, const struct history_options *options, struct witness *witness) {
  const struct history_consumer consumer = {.context = counting, .op = take_op, .left_out = take_left_out};
  counting->begun = counting->span = 0;
  counting->own = false;
  counting->op = 0;
  if (history_run(counting->reader, options, &consumer, witness, counting->error) != 0)
    return -1;
  int result = take_turns(counting, 0, UINT64_MAX);
  end_span(counting, false);
  return result;
}

static int run_again_for_sites(struct counting *counting, const struct spans_options *options,
                               struct witness *witness) {
  if (span_sites_open(&counting->sites, counting->reader, options->sites, counting->error) != 0)
    return -1;
  span_marks_rewind(&counting->marks, counting->passed);
  if (counting->slots)
    memset(counting->objects.at, 0, counting->slots * sizeof *counting->objects.at);
  return run(counting, options->history, witness);
}

static json_t *span_json(struct span *span, bool with_sites) {
  json_t *object =
      json_pack("{ss sb sI sI sI sI sI sI}", "name", span->name, "ended", span->ended, "allocations",
                (json_int_t)span->allocations, "allocated_bytes", (json_int_t)span->allocated_bytes, "peak_bytes",
                (json_int_t)span->peak_bytes, "peak_objects", (json_int_t)span->peak_objects, "growth_bytes",
                (json_int_t)span->live_bytes, "growth_objects", (json_int_t)span->live_objects);
  if (with_sites) {
    json_object_set_new(object, "peak_sites", span->peak_sites ? json_incref(span->peak_sites) : json_array());
    json_object_set_new(object, "growth_sites", span->growth_sites ? json_incref(span->growth_sites) : json_array());
  }
  return object;
}

static json_t *counted_json(const struct counting *counting, const struct witness *witness) {
  json_t *spans = json_array();
  for (size_t i = 0; i < counting->spans.count; i++)
    json_array_append_new(spans, span_json(&counting->spans.at[i], counting->sites != NULL));
  return json_pack("{so sI sI}", "spans", spans, "events", (json_int_t)witness->events, "dropped",
                   (json_int_t)witness->dropped);
}

static void counting_free(struct counting *counting) {
  for (size_t i = 0; i < counting->spans.count; i++) {
    json_decref(counting->spans.at[i].peak_sites);
    json_decref(counting->spans.at[i].growth_sites);
  }
  span_sites_close(counting->sites);
  span_marks_free(&counting->marks);
  free(counting->objects.at);
  free(counting->spans.at);
}

json_t *spans_of_trace(struct trace_reader *reader, const struct spans_options *options, struct error *error) {
  struct witness witness;
  uint64_t *passed = calloc(trace_reader_summary(reader)->threads + 1, sizeof *passed);
  struct counting counting = {.reader = reader, .error = error, .passed = passed};
  json_t *object = NULL;
  if (!passed) {
    no_memory(&counting);
    return NULL;
  }
  trace_reader_skip(reader, options->from_byte, passed);
  if (span_marks_load(&counting.marks, reader, passed, error) == 0 && run(&counting, options->history, &witness) == 0 &&
      (options->sites == 0 || run_again_for_sites(&counting, options, &witness) == 0))
    object = counted_json(&counting, &witness);
  counting_free(&counting);
  free(passed);
  return object;
}
