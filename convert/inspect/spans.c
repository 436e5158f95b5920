/* SPDX-License-Identifier: MIT */
/* The marks with which a program selects the parts of its recording that are counted: "heaptape:begin NAME", then
   alternately "heaptape:own" and "heaptape:rest", finally "heaptape:end"; and "heaptape:at N" for the place in its own
   source at which a thread is. The first four kinds hold for all threads, "at" for its own. Other marks are skipped. */
#include "convert/inspect/spans.h"
#include "convert/history/trace_info.h"
#include "convert/stacks/symbols.h"
#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Where the live objects of a span were acquired: sums by call stack and place, the largest first, as JSON.

   Memory is O(live objects + stack nodes). Not thread-safe. */

struct span_object {
  uint64_t size_bytes;
  uint32_t span; /* the span that owns it; 0: none, or not live */
  uint32_t stack, place;
};

struct span_sites {
  struct symbols *symbols; /* NULL: no stacks were recorded */
  uint32_t count;
};

struct site {
  uint64_t bytes, objects;
  uint32_t stack, place;
};

/* count: of sites in each list. Returns 0, or -1 with error. */
static int span_sites_open(struct span_sites **out, struct trace_reader *reader, uint32_t count, struct error *error) {
  struct span_sites *sites = *out = calloc(1, sizeof *sites);
  if (!sites)
    return error_set(error, trace_reader_path(reader), "out of memory");
  sites->count = count;
  return trace_reader_summary(reader)->stack_nodes ? symbols_open(&sites->symbols, reader, false, error) : 0;
}

static void span_sites_close(struct span_sites *sites) {
  if (!sites)
    return;
  symbols_close(sites->symbols);
  free(sites);
}

static int by_identity(const void *left, const void *right) {
  const struct site *a = left, *b = right;
  return COMPARE(a->place, b->place) ?: COMPARE(a->stack, b->stack);
}

static int by_bytes(const void *left, const void *right) {
  const struct site *a = left, *b = right;
  return COMPARE(b->bytes, a->bytes) ?: by_identity(left, right);
}

/* Joins adjacent entries of one site; returns how many are left. */
static size_t join(struct site *sites, size_t count) {
  size_t joined = 0;
  for (size_t i = 0; i < count; i++) {
    if (joined && by_identity(&sites[joined - 1], &sites[i]) == 0) {
      sites[joined - 1].bytes += sites[i].bytes;
      sites[joined - 1].objects += sites[i].objects;
    } else {
      sites[joined++] = sites[i];
    }
  }
  return joined;
}

static json_t *site_json(const struct span_sites *sites, const struct site *site) {
  return json_pack("{sI sI so so}", "bytes", (json_int_t)site->bytes, "objects", (json_int_t)site->objects, "place",
                   site->place ? json_integer(site->place) : json_null(), "frames",
                   frames_json(sites->symbols, site->stack, true));
}

/* Returns the list of spans.h for the span's own objects. A new reference; NULL: no memory. */
static json_t *span_sites_json(struct span_sites *sites, const struct span_object *objects, size_t count,
                               uint32_t span) {
  VECTOR(struct site) found = {0};
  for (size_t i = 0; i < count; i++) {
    if (objects[i].span != span)
      continue;
    struct site *site = vector_add(&found);
    if (!site) {
      free(found.at);
      return NULL;
    }
    *site = (struct site){objects[i].size_bytes, 1, objects[i].stack, objects[i].place};
  }
  json_t *list = json_array();
  vector_sort(&found, by_identity);
  found.count = join(found.at, found.count);
  vector_sort(&found, by_bytes);
  for (size_t i = 0; i < found.count && i < sites->count; i++)
    json_array_append_new(list, site_json(sites, &found.at[i]));
  free(found.at);
  return list;
}

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
  const uint64_t *passed; /* events of each thread that are left out */
  struct recorded_marks marks;
  uint32_t *places;                   /* of each thread: at which it is, from 1 on; 0: no mark gave one */
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

static int take_mark(struct counting *counting, const struct recorded_mark *mark) {
  static const char prefix[] = "heaptape:", begin[] = "begin ", at[] = "at ";
  if (strncmp(mark->text, prefix, sizeof prefix - 1) != 0 || mark->thread >= counting->marks.threads)
    return 0;
  const char *text = mark->text + sizeof prefix - 1;
  if (strncmp(text, begin, sizeof begin - 1) == 0) {
    end_span(counting, false);
    return begin_span(counting, text + sizeof begin - 1);
  }
  if (strncmp(text, at, sizeof at - 1) == 0) {
    unsigned long place = strtoul(text + sizeof at - 1, NULL, 10);
    counting->places[mark->thread] = place < UINT32_MAX ? (uint32_t)place : 0;
  } else if (strcmp(text, "own") == 0 || strcmp(text, "rest") == 0) {
    counting->own = counting->span && *text == 'o';
  } else if (strcmp(text, "end") == 0) {
    end_span(counting, true);
  }
  return 0;
}

static int take_marks(struct counting *counting, uint32_t thread, uint64_t stamp) {
  const struct recorded_mark *mark;
  while ((mark = recorded_marks_before(&counting->marks, thread, stamp)))
    if (take_mark(counting, mark) != 0)
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
                                 .place = counting->places[op->thread]};
  span->allocations++;
  span->allocated_bytes += op->request_bytes;
  span->live_bytes += op->request_bytes;
  span->live_objects++;
}

static int take_op(void *context, const struct history_op *op, struct slots *slots) {
  struct counting *counting = context;
  (void)slots;
  if (take_marks(counting, op->thread, op->stamp) != 0)
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
    recorded_marks_after_event(&counting->marks, op->thread);
  counting->op++;
  return 0;
}

static int take_left_out(void *context, const struct merge_step *step, uint32_t slot) {
  struct counting *counting = context;
  (void)slot;
  int result = take_marks(counting, step->thread, step->stamp);
  if (step->is_last)
    recorded_marks_after_event(&counting->marks, step->thread);
  return result;
}

static int run(struct counting *counting, const struct history_options *options, struct witness *witness) {
  const struct history_consumer consumer = {.context = counting, .op = take_op, .left_out = take_left_out};
  counting->begun = counting->span = 0;
  counting->own = false;
  counting->op = 0;
  memset(counting->places, 0, counting->marks.threads * sizeof *counting->places);
  recorded_marks_rewind(&counting->marks, counting->passed);
  if (history_run(counting->reader, options, &consumer, witness, counting->error) != 0)
    return -1;
  int result = take_marks(counting, 0, UINT64_MAX);
  end_span(counting, false);
  return result;
}

static int run_again_for_sites(struct counting *counting, const struct spans_options *options,
                               struct witness *witness) {
  if (span_sites_open(&counting->sites, counting->reader, options->sites, counting->error) != 0)
    return -1;
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
  recorded_marks_free(&counting->marks);
  free(counting->objects.at);
  free(counting->spans.at);
}

json_t *spans_of_trace(struct trace_reader *reader, const struct spans_options *options, struct error *error) {
  struct witness witness;
  uint32_t threads = trace_reader_summary(reader)->threads;
  uint64_t *passed = calloc(threads + 1, sizeof *passed);
  uint32_t *places = calloc(threads + 1, sizeof *places);
  struct counting counting = {.reader = reader, .error = error, .passed = passed, .places = places};
  json_t *object = NULL;
  if (passed && places)
    trace_reader_skip(reader, options->from_byte, passed);
  if (!passed || !places)
    no_memory(&counting);
  else if (recorded_marks_load(&counting.marks, reader, error) == 0 &&
           run(&counting, options->history, &witness) == 0 &&
           (options->sites == 0 || run_again_for_sites(&counting, options, &witness) == 0))
    object = counted_json(&counting, &witness);
  counting_free(&counting);
  free(passed);
  free(places);
  return object;
}
