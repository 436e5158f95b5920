/* SPDX-License-Identifier: MIT */
#include "convert/rewrite/slice.h"

#include "convert/copy/trace_copy.h"
#include "convert/history/trace_info.h"
#include "core/base/vector.h"
#include "core/trace/control_names.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
  const char *name;
  double factor;
};

/* Parses a number and its unit, up to end. Units end with a NULL name. */
static bool parse_quantity(const char *text, const char *end, const struct unit *units, double *value) {
  char copy[64], *rest;
  size_t length = (size_t)(end - text);
  if (length == 0 || length >= sizeof copy || strchr("+-", *text))
    return false;
  memcpy(copy, text, length);
  copy[length] = '\0';
  errno = 0;
  *value = strtod(copy, &rest);
  if (rest == copy || errno || !isfinite(*value))
    return false;
  for (; units->name; units++)
    if (strcmp(rest, units->name) == 0) {
      *value *= units->factor;
      return true;
    }
  return false;
}

/* Parses both sides of FROM..TO; a side left out keeps its value. Returns false if there are no dots, or a side is not
   a number. */
static bool parse_range(const char *text, const struct unit *units, double *from, double *to) {
  const char *dots = strstr(text, "..");
  if (!dots)
    return false;
  const char *end = dots + strlen(dots);
  return (dots == text || parse_quantity(text, dots, units, from)) &&
         (dots + 2 == end || parse_quantity(dots + 2, end, units, to));
}

static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

static const char *parse_time(struct slice_spec *spec, const char *text) {
  static const struct unit units[] = {{"ns", 1},   {"us", 1e3}, {"ms", 1e6}, {"s", 1e9},
                                      {"m", 60e9}, {"", 1e9},   {NULL, 0}};
  double from = spec->from_ns, to = spec->to_ns;
  if (!parse_range(text, units, &from, &to) || to < from)
    return "time needs FROM..TO, such as 1.5s..3s";
  spec->by_time = true;
  spec->from_ns = fmax(spec->from_ns, from);
  spec->to_ns = fmin(spec->to_ns, to);
  return NULL;
}

static const char *parse_progress(struct slice_spec *spec, const char *text) {
  static const struct unit percent[] = {{"%", 1}, {NULL, 0}};
  double from = 0, to = 100;
  if (strchr(text, '%')) {
    if (!parse_range(text, percent, &from, &to) || to < from || to > 100)
      return "progress needs FROM%..TO%, at most 100%";
    spec->from_percent = fmax(spec->from_percent, from);
    spec->to_percent = fmin(spec->to_percent, to);
    return NULL;
  }
  to = INFINITY;
  if (!parse_range(text, plain_units, &from, &to) || to < from || from != floor(from) || to != floor(to) ||
      from >= 0x1p63)
    return "progress needs FROM..TO in events or in percent, such as 10%..20%";
  if ((uint64_t)from > spec->from_event)
    spec->from_event = (uint64_t)from;
  if (to < 0x1p63 && (uint64_t)to < spec->to_event)
    spec->to_event = (uint64_t)to;
  return NULL;
}

static const char *parse_size(struct slice_spec *spec, const char *text) {
  static const struct unit units[] = {{"", 1},        {"k", 1 << 10}, {"K", 1 << 10}, {"m", 1 << 20},
                                      {"M", 1 << 20}, {"g", 1 << 30}, {"G", 1 << 30}, {NULL, 0}};
  double from = 0, to = INFINITY;
  if (!parse_range(text, units, &from, &to) || to < from || from >= 0x1p63)
    return "size needs FROM..TO in bytes, such as 1k..64k";
  spec->by_size = true;
  if ((uint64_t)from > spec->from_size)
    spec->from_size = (uint64_t)from;
  if (to < 0x1p63 && (uint64_t)to < spec->to_size)
    spec->to_size = (uint64_t)to;
  return NULL;
}

static const char *parse_mark(struct slice_spec *spec, const char *text) {
  const char *dots = strstr(text, "..");
  if (!dots || dots[2] == '\0' ? !dots || dots == text : false)
    return "mark needs FROM..TO, texts of marks";
  if (spec->by_mark)
    return "mark can be given only once";
  spec->by_mark = true;
  spec->from_mark = dots == text ? NULL : text;
  spec->from_mark_bytes = (uint32_t)(dots - text);
  spec->to_mark = dots[2] ? dots + 2 : NULL;
  return NULL;
}

/* Numbers and ranges N..M, separated by commas. */
static const char *parse_threads(struct slice_spec *spec, const char *text) {
  static const char wrong[] = "thread needs numbers or ranges, such as 0,3..5";
  if (spec->thread_ranges)
    return "thread can be given only once";
  while (*text) {
    char *end;
    errno = 0;
    uint64_t from = strtoull(text, &end, 10), to = from;
    if (end == text || strchr("+-", *text))
      return wrong;
    if (strncmp(end, "..", 2) == 0) {
      text = end + 2;
      to = strtoull(text, &end, 10);
      if (end == text || strchr("+-", *text))
        return wrong;
    }
    if (errno || to < from || (*end && *end != ',') || (*end == ',' && !end[1]))
      return wrong;
    if (spec->thread_ranges == SLICE_MAX_RANGES)
      return "too many ranges of threads";
    spec->threads[spec->thread_ranges++] = (struct slice_range){from, to};
    text = *end ? end + 1 : end;
  }
  return spec->thread_ranges ? NULL : wrong;
}

const char *slice_spec_parse(struct slice_spec *spec, const char *text) {
  static const struct {
    const char *key;
    const char *(*parse)(struct slice_spec *spec, const char *text);
  } keys[] = {{"time=", parse_time},
              {"progress=", parse_progress},
              {"size=", parse_size},
              {"mark=", parse_mark},
              {"thread=", parse_threads}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strncmp(text, keys[i].key, strlen(keys[i].key)) == 0)
      return keys[i].parse(spec, text + strlen(keys[i].key));
  return "a slice is time=, progress=, mark=, thread= or size=, then FROM..TO";
}

static bool slice_spec_has_thread(const struct slice_spec *spec, uint32_t thread) {
  for (uint32_t i = 0; i < spec->thread_ranges; i++)
    if (thread >= spec->threads[i].from && thread <= spec->threads[i].to)
      return true;
  return spec->thread_ranges == 0;
}

/* The object in a slot. */
struct slice_object {
  uint64_t address, size_bytes, param;
  uint64_t acquired; /* ordinal; 0: the slot is empty */
  uint64_t release_stamp;
  uint32_t thread;
  uint8_t call;
  bool chosen;
  bool moving; /* between the two steps of a realloc */
  bool cut;    /* it was moving when the window began */
};

/* A control call from before the window, whose effect stays. */
struct slice_setting {
  struct trace_event event;
  uint32_t thread;
};

struct slicer {
  struct trace_out *out;
  const struct slice_spec *spec;
  struct witness witness; /* of the whole trace, up to where it was read */
  uint64_t from_stamp, to_stamp, from_event, to_event;
  VECTOR(struct slice_object) objects; /* by slot */
  uint32_t *moving;                    /* by thread: slot of the object that it is moving; SLOTS_NONE: none */
  uint64_t acquires;
  uint64_t floor, last_stamp; /* stamp of the window's first event; last stamp written */
  uint32_t last_thread;
  bool begun, ended;
  VECTOR(struct slice_setting) settings; /* made before the window */
  struct trace_stacks stacks;
  struct recorded_marks marks;
  const char *path;
  struct error *error;
};

/* Returns the stamp to write for a step that is placed after all written steps: its own, unless the order was repaired,
   or left open by equal stamps of two threads. Then it is raised, so that the slice's order needs no repair. */
static uint64_t order_stamp(struct slicer *slicer, uint32_t thread, uint64_t stamp) {
  uint64_t least = slicer->last_stamp + (thread != slicer->last_thread);
  slicer->last_stamp = stamp < least ? least : stamp;
  slicer->last_thread = thread;
  return slicer->last_stamp;
}

/* Writes an event of the window at its only or last step; its stamps are in order. */
static int emit_ordered(struct slicer *slicer, uint32_t thread, const struct trace_event *event) {
  struct trace_event copy = *event;
  copy.stack = trace_stacks_node(&slicer->stacks, event->stack);
  return trace_out_event(slicer->out, thread, &copy);
}

static int emit(struct slicer *slicer, uint32_t thread, const struct trace_event *event) {
  struct trace_event copy = *event;
  copy.release_stamp = copy.acquire_stamp = order_stamp(slicer, thread, trace_event_first_stamp(event));
  return emit_ordered(slicer, thread, &copy);
}

static int emit_move(struct slicer *slicer, uint32_t thread, const struct trace_event *event, uint64_t release_stamp) {
  struct trace_event copy = *event;
  copy.release_stamp = release_stamp;
  copy.acquire_stamp = order_stamp(slicer, thread, event->acquire_stamp);
  return emit_ordered(slicer, thread, &copy);
}

/* Writes the marks of the window up to that stamp, each after the same events of its thread as before. A mark without
   an earlier event of its thread in the slice has no thread there, and is left out. */
static int place_marks(struct slicer *slicer, uint64_t stamp) {
  const struct recorded_mark *mark;
  while ((mark = recorded_marks_before(&slicer->marks, MERGE_ALL_THREADS, stamp))) {
    struct trace_mark copy = {mark->stamp, TRACE_MARK_HERE, trace_out_thread(slicer->out, mark->thread), mark->text};
    if (slicer->begun && mark->stamp >= slicer->from_stamp && copy.thread != UINT32_MAX &&
        trace_writer_mark(trace_out_writer(slicer->out), &copy) != 0)
      return -1;
  }
  return 0;
}

static int by_acquire(const void *left, const void *right) {
  const struct slice_object *const *a = left, *const *b = right;
  return COMPARE((*a)->acquired, (*b)->acquired);
}

static int note_setting(struct slicer *slicer, const struct history_op *op) {
  if (!control_stays(op->call & CALL_ID_MASK, op->param))
    return 0;
  struct slice_setting *setting = vector_add(&slicer->settings);
  if (!setting)
    return error_set(slicer->error, slicer->path, "out of memory");
  *setting = (struct slice_setting){{.call = op->call, .size_bytes = op->size_bytes, .param = op->param}, op->thread};
  return 0;
}

static int emit_prologue(struct slicer *slicer, const struct slice_object *const *live, size_t count) {
  for (size_t i = 0; i < slicer->settings.count; i++) {
    struct slice_setting *setting = &slicer->settings.at[i];
    setting->event.acquire_stamp = slicer->floor - 1;
    if (trace_out_event(slicer->out, setting->thread, &setting->event) != 0)
      return -1;
  }
  for (size_t i = 0; i < count; i++) {
    const struct slice_object *object = live[i];
    struct trace_event event = {.call = object->call,
                                .acquired = object->address,
                                .size_bytes = object->size_bytes,
                                .param = object->param,
                                .acquire_stamp = slicer->floor - 1};
    if (trace_out_event(slicer->out, object->thread, &event) != 0)
      return -1;
  }
  return 0;
}

/* The window begins with a step of that stamp. */
static int begin(struct slicer *slicer, uint64_t stamp) {
  size_t count = 0;
  const struct slice_object **live = malloc((slicer->objects.room + 1) * sizeof *live);
  if (!live)
    return error_set(slicer->error, slicer->path, "out of memory");
  slicer->begun = true;
  slicer->floor = stamp ? stamp : 1;
  slicer->last_stamp = slicer->floor - 1;
  slicer->last_thread = UINT32_MAX; /* so that the first step comes after the prologue, which has this stamp */
  for (uint32_t slot = 0; slot < slicer->objects.room; slot++) {
    struct slice_object *object = &slicer->objects.at[slot];
    if (object->acquired && object->moving)
      object->cut = true;
    else if (object->acquired && object->chosen)
      live[count++] = object;
  }
  qsort(live, count, sizeof *live, by_acquire);
  int result = emit_prologue(slicer, live, count);
  free(live);
  return result;
}

/* If the realloc that the thread is in has released a chosen object in the window, it becomes a free. Its later
   acquire, if also in the window, becomes a realloc of NULL. */
static int cut_move(struct slicer *slicer, uint32_t thread) {
  uint32_t slot = slicer->moving[thread];
  struct slice_object *object = slot == SLOTS_NONE ? NULL : &slicer->objects.at[slot];
  if (!object || object->cut || !object->chosen)
    return 0;
  object->cut = true;
  struct trace_event event = {.call = CALL_free,
                              .released = object->address,
                              .release_stamp = object->release_stamp,
                              .acquire_stamp = object->release_stamp};
  return emit_ordered(slicer, thread, &event);
}

static int end(struct slicer *slicer) {
  slicer->ended = true;
  for (uint32_t thread = 0; thread < slicer->witness.threads; thread++)
    if (cut_move(slicer, thread) != 0)
      return -1;
  return 0;
}

/* Returns 1: a step of that stamp is in the window; 0: not yet; -1: stop, the window has ended or an error occurred. */
static int window(struct slicer *slicer, uint64_t stamp) {
  uint64_t event = slicer->witness.events;
  bool inside = stamp < slicer->to_stamp && event < slicer->to_event;
  if (slicer->begun && place_marks(slicer, inside ? stamp : slicer->last_stamp) != 0)
    return -1;
  if (!slicer->begun) {
    if (stamp < slicer->from_stamp || event < slicer->from_event)
      return 0;
    if (begin(slicer, stamp) != 0)
      return -1;
  }
  if (inside)
    return 1;
  end(slicer);
  return -1;
}

static struct slice_object *object_of(struct slicer *slicer, const struct slots *slots, uint32_t slot) {
  return vector_reach(&slicer->objects, slots->room - 1) ? &slicer->objects.at[slot] : NULL;
}

static bool is_chosen_size(const struct slicer *slicer, uint64_t size_bytes) {
  return size_bytes >= slicer->spec->from_size && size_bytes <= slicer->spec->to_size;
}

static void note_acquire(struct slicer *slicer, struct slice_object *object, const struct history_op *op) {
  bool resizes = call_table[op->call & CALL_ID_MASK].released != NOTHING;
  *object = (struct slice_object){.address = op->event->acquired,
                                  .size_bytes = resizes ? op->request_bytes : op->size_bytes,
                                  .param = resizes ? 0 : op->param,
                                  .acquired = ++slicer->acquires,
                                  .thread = op->thread,
                                  .call = resizes ? CALL_malloc : op->call & CALL_ID_MASK,
                                  .chosen = is_chosen_size(slicer, op->request_bytes) &&
                                            slice_spec_has_thread(slicer->spec, op->thread)};
}

/* Notes the new address of an object that realloc has moved; in a prologue it is a malloc of its present size. */
static void note_move(struct slicer *slicer, struct slice_object *object, const struct history_op *op) {
  slicer->moving[op->thread] = SLOTS_NONE;
  object->address = op->event->acquired;
  object->size_bytes = op->request_bytes;
  object->param = 0;
  object->call = CALL_malloc;
  object->moving = object->cut = false;
}

static int emit_acquire_only(struct slicer *slicer, const struct history_op *op) {
  struct trace_event event = *op->event;
  event.call |= CALL_NULL_IN;
  event.released = 0;
  event.touched_os_pages = event.touched_parts = 0;
  return emit(slicer, op->thread, &event);
}

/* Writes a free that was not seen. It can't be between the two steps of a realloc of its thread. */
static int emit_implied_free(struct slicer *slicer, const struct history_op *op, const struct slice_object *object) {
  if (cut_move(slicer, op->thread) != 0)
    return -1;
  const struct trace_event event = {
      .call = CALL_free, .released = object->address, .release_stamp = op->stamp, .acquire_stamp = op->stamp};
  return emit(slicer, op->thread, &event);
}

static int take_op(void *context, const struct history_op *op, struct slots *slots) {
  struct slicer *slicer = context;
  int inside = window(slicer, op->stamp);
  if (inside < 0)
    return -1;
  if (!inside && op->kind == HISTORY_NOTHING)
    return note_setting(slicer, op);
  if (op->kind == HISTORY_NOTHING)
    return !slicer->spec->by_size && slice_spec_has_thread(slicer->spec, op->thread)
               ? emit(slicer, op->thread, op->event)
               : 0;
  struct slice_object *object = object_of(slicer, slots, op->slot);
  if (!object)
    return error_set(slicer->error, slicer->path, "out of memory");
  bool cut = object->cut && op->kind == HISTORY_MOVE;
  if (op->kind == HISTORY_ACQUIRE)
    note_acquire(slicer, object, op);
  int result = 0;
  if (inside && object->chosen) {
    if (!op->event)
      result = emit_implied_free(slicer, op, object);
    else if (cut || (op->kind == HISTORY_ACQUIRE && (op->call & CALL_NULL_IN)))
      result = emit_acquire_only(slicer, op);
    else if (op->kind == HISTORY_MOVE)
      result = emit_move(slicer, op->thread, op->event, object->release_stamp);
    else
      result = emit(slicer, op->thread, op->event);
  }
  if (op->kind == HISTORY_MOVE)
    note_move(slicer, object, op);
  else if (op->kind == HISTORY_RELEASE)
    *object = (struct slice_object){0};
  return result;
}

static int move_begins(void *context, const struct merge_step *step, uint32_t slot) {
  struct slicer *slicer = context;
  int inside = window(slicer, step->stamp);
  if (inside < 0)
    return -1;
  struct slice_object *object = &slicer->objects.at[slot];
  object->moving = true;
  object->thread = step->thread;
  slicer->moving[step->thread] = slot;
  if (inside && object->chosen)
    object->release_stamp = order_stamp(slicer, step->thread, step->stamp);
  return 0;
}

static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct slicer *slicer = context;
  int inside = window(slicer, step->stamp);
  if (inside <= 0)
    return inside;
  if (step->traits & EVENT_TAKES) /* a failed realloc, or an object never seen */
    return slot != SLOTS_NONE && slicer->objects.at[slot].chosen ? emit(slicer, step->thread, step->event) : 0;
  bool chosen = is_chosen_size(slicer, trace_event_request_bytes(step->event)) &&
                slice_spec_has_thread(slicer->spec, step->thread);
  return chosen ? emit(slicer, step->thread, step->event) : 0;
}

static void end_thread(void *context, uint32_t thread) {
  struct slicer *slicer = context;
  trace_out_end_thread(slicer->out, thread);
}

static void touched_at_end(void *context, uint32_t slot, struct touched touched) {
  struct slicer *slicer = context;
  const struct slice_object *object = &slicer->objects.at[slot];
  if (object->chosen && slicer->begun)
    trace_writer_touched(trace_out_writer(slicer->out), object->address, touched);
}

static int take_sample(void *context, const struct trace_sample *sample) {
  struct slicer *slicer = context;
  bool inside = slicer->begun && sample->stamp >= slicer->floor && sample->stamp < slicer->to_stamp &&
                (!slicer->ended || sample->stamp <= slicer->last_stamp);
  return inside ? trace_writer_sample(trace_out_writer(slicer->out), sample) : 0;
}

static uint64_t stamp_of_ns(const struct trace_summary *summary, double ns) {
  double stamp = (double)summary->clock_origin_stamp + ns * summary->clock_hz / 1e9;
  return stamp >= 0x1p63 ? UINT64_MAX : (uint64_t)ceil(stamp);
}

/* The first mark of that text in the list from *mark on; *mark is then the next one. NULL: none. */
static const struct recorded_mark *find_mark(const struct slicer *slicer, size_t *mark, const char *text,
                                             size_t bytes) {
  while (*mark < slicer->marks.list.count) {
    const struct recorded_mark *candidate = &slicer->marks.list.at[(*mark)++];
    if (strlen(candidate->text) == bytes && memcmp(candidate->text, text, bytes) == 0)
      return candidate;
  }
  return NULL;
}

static int find_marks(struct slicer *slicer) {
  const struct slice_spec *spec = slicer->spec;
  size_t next = 0;
  if (spec->from_mark) {
    const struct recorded_mark *from = find_mark(slicer, &next, spec->from_mark, spec->from_mark_bytes);
    if (!from)
      return error_set(slicer->error, slicer->path, "has no mark '%.*s'", (int)spec->from_mark_bytes, spec->from_mark);
    if (from->stamp > slicer->from_stamp)
      slicer->from_stamp = from->stamp;
  }
  if (!spec->to_mark)
    return 0;
  const struct recorded_mark *to = find_mark(slicer, &next, spec->to_mark, strlen(spec->to_mark));
  if (!to)
    return error_set(slicer->error, slicer->path, "has no mark '%s'%s", spec->to_mark,
                     spec->from_mark ? " after the first" : "");
  if (to->stamp < slicer->to_stamp)
    slicer->to_stamp = to->stamp;
  return 0;
}

static int find_window(struct slicer *slicer, struct trace_reader *reader) {
  const struct trace_summary *summary = trace_reader_summary(reader);
  const struct slice_spec *spec = slicer->spec;
  slicer->to_stamp = UINT64_MAX;
  if (spec->by_time) {
    if (summary->clock_hz <= 0)
      return error_set(slicer->error, slicer->path, "has no times to slice by: use progress=");
    slicer->from_stamp = stamp_of_ns(summary, spec->from_ns);
    slicer->to_stamp = stamp_of_ns(summary, spec->to_ns);
  }
  double events = (double)summary->events;
  uint64_t from = (uint64_t)ceil(events * spec->from_percent / 100);
  slicer->from_event = from > spec->from_event ? from : spec->from_event;
  slicer->to_event = spec->to_event;
  if (spec->to_percent < 100 && (uint64_t)ceil(events * spec->to_percent / 100) < slicer->to_event)
    slicer->to_event = (uint64_t)ceil(events * spec->to_percent / 100);
  if (recorded_marks_load(&slicer->marks, reader, slicer->error) != 0)
    return -1;
  return spec->by_mark ? find_marks(slicer) : 0;
}

static json_t *slice_info(const struct trace_summary *summary, const json_t *texts) {
  json_t *info = trace_out_source_info(summary);
  json_object_del(info, "accesses");
  json_object_del(info, "rotation");
  json_object_del(info, "set_before"); /* they are events of the slice */
  json_object_set_new(info, "slice",
                      json_pack("{sO sI sI sb sI}", "of", texts, "events", (json_int_t)summary->events, "threads",
                                (json_int_t)summary->threads, "truncated", summary->truncated, "dropped",
                                (json_int_t)summary->dropped));
  return info;
}

static int slice(struct slicer *slicer, struct trace_reader *reader, const struct history_options *history,
                 struct error *error) {
  const struct history_consumer consumer = {.context = slicer,
                                            .op = take_op,
                                            .thread_end = end_thread,
                                            .touched_at_end = touched_at_end,
                                            .left_out = take_left_out,
                                            .move_begins = move_begins};
  struct error wrong = {0}, written = {0};
  int result = trace_copy_stacks(&slicer->stacks, reader, slicer->out, 0, slicer->error);
  if (result == 0)
    result = history_run(reader, history, &consumer, &slicer->witness, &wrong);
  if (result != 0 && slicer->ended && !slicer->error->text[0])
    result = 0; /* the run was stopped where the window ends */
  if (result == 0 && !slicer->ended)
    result = place_marks(slicer, UINT64_MAX);
  if (result == 0)
    result = trace_reader_samples(reader, take_sample, slicer, slicer->error);
  if (result == 0)
    result = trace_copy_thread_names(reader, slicer->out, 0, slicer->error);
  if (trace_reader_summary(reader)->accesses.recorded)
    trace_out_drop_accesses(slicer->out);
  result = trace_out_close(slicer->out, trace_reader_summary(reader), result != 0, &written);
  if (result != 0)
    *error = slicer->error->text[0] ? *slicer->error : written.text[0] ? written : wrong;
  return result;
}

int trace_slice(struct trace_reader *reader, const char *path, const struct slice_spec *spec,
                const struct trace_options *options, struct error *error) {
  struct error own = {0};
  struct slicer slicer = {.spec = spec, .path = trace_reader_path(reader), .error = &own};
  uint32_t threads = trace_reader_summary(reader)->threads;
  int result = find_window(&slicer, reader);
  if (result == 0 && !(slicer.moving = malloc((threads + 1) * sizeof *slicer.moving)))
    result = error_set(&own, slicer.path, "out of memory");
  if (result == 0) {
    memset(slicer.moving, 0xff, threads * sizeof *slicer.moving); /* SLOTS_NONE */
    json_t *info = slice_info(trace_reader_summary(reader), spec->texts);
    slicer.out = trace_out_open(path, info, options, threads, &own);
    json_decref(info);
    result = slicer.out ? 0 : -1;
  }
  if (result == 0)
    result = slice(&slicer, reader, options->history, error);
  else
    *error = own;
  free(slicer.objects.at);
  free(slicer.settings.at);
  free(slicer.moving);
  recorded_marks_free(&slicer.marks);
  trace_stacks_free(&slicer.stacks);
  return result;
}
