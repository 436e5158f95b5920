/* SPDX-License-Identifier: MIT */
/* The marks with which a program selects the parts of its recording that are counted: "heaptape:begin NAME", then
   alternately "heaptape:own" and "heaptape:rest", finally "heaptape:end"; and "heaptape:at N" for the place in its own
   source at which a thread is.

   Job: the positions of these marks in the merged history. Not its job: counting (spans.h); other marks, which are
   skipped. Invariants: the first four kinds hold for all threads, and come before the first op with their stamp or a
   later one, or the next op of their own thread; "at" holds for its own thread only. Memory is O(marks + threads). Not
   thread-safe. */
#include "convert/inspect/inspect.h"
#include "convert/stacks/stacks.h"
#include "core/base/vector.h"
#include "core/trace/read/trace_read.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum span_mark_kind { SPAN_BEGIN, SPAN_OWN, SPAN_REST, SPAN_END, SPAN_AT };

struct span_mark {
  uint64_t stamp, events; /* events: events of its thread before it */
  uint32_t thread;
  enum span_mark_kind kind;
  char *name;     /* of SPAN_BEGIN; else NULL */
  uint32_t place; /* of SPAN_AT, from 1 on */
};

struct span_marks {
  VECTOR(struct span_mark) turns;  /* all but SPAN_AT, by stamp */
  VECTOR(struct span_mark) places; /* SPAN_AT, by thread, then in its order */
  size_t next_turn;
  uint32_t threads;
  uint64_t *events;   /* passed events of each thread, including those before the reader's start */
  size_t *next_place; /* of each thread, in places */
};

/* Call it after an event of the thread. */
static inline void span_marks_passed(struct span_marks *marks, uint32_t thread) {
  marks->events[thread]++;
}

/* Where the live objects of a span were acquired: sums by call stack and place, the largest first, as JSON.

   Not its job: which objects live (spans.h). Memory is O(live objects + stack nodes). Not thread-safe. */

struct span_object {
  uint64_t size_bytes;
  uint32_t span; /* the span that owns it; 0: none, or not live */
  uint32_t stack, place;
};

struct span_sites;

static const char prefix[] = "heaptape:";

/* Fills in kind and place, and in *name the text after "begin ". Returns false for other marks of the program. */
static bool parse_span_mark(const char *text, struct span_mark *mark, const char **name) {
  static const char *const words[] = {
      [SPAN_BEGIN] = "begin ", [SPAN_OWN] = "own", [SPAN_REST] = "rest", [SPAN_END] = "end", [SPAN_AT] = "at "};
  if (strncmp(text, prefix, sizeof prefix - 1) != 0)
    return false;
  text += sizeof prefix - 1;
  for (mark->kind = SPAN_BEGIN; mark->kind <= SPAN_AT; mark->kind++) {
    const char *word = words[mark->kind];
    bool has_rest = mark->kind == SPAN_BEGIN || mark->kind == SPAN_AT;
    if (has_rest ? strncmp(text, word, strlen(word)) != 0 : strcmp(text, word) != 0)
      continue;
    *name = mark->kind == SPAN_BEGIN ? text + strlen(word) : NULL;
    unsigned long place = mark->kind == SPAN_AT ? strtoul(text + strlen(word), NULL, 10) : 0;
    mark->place = place < UINT32_MAX ? (uint32_t)place : 0;
    return true;
  }
  return false;
}

static int add(void *context, const struct trace_mark *from) {
  struct span_marks *marks = context;
  struct span_mark mark = {.stamp = from->stamp, .events = from->events, .thread = from->thread};
  const char *name;
  if (from->thread >= marks->threads || !parse_span_mark(from->text, &mark, &name))
    return 0;
  if (name && !(mark.name = strdup(name)))
    return 1;
  struct span_mark *added = mark.kind == SPAN_AT ? vector_add(&marks->places) : vector_add(&marks->turns);
  if (!added) {
    free(mark.name);
    return 1;
  }
  *added = mark;
  return 0;
}

static int by_stamp(const void *left, const void *right) {
  const struct span_mark *a = left, *b = right;
  return COMPARE(a->stamp, b->stamp) ?: COMPARE(a->events, b->events);
}

static int by_thread(const void *left, const void *right) {
  const struct span_mark *a = left, *b = right;
  return COMPARE(a->thread, b->thread) ?: by_stamp(left, right);
}

/* Returns to the start, for another run over the same history. passed: as above. */
static void span_marks_rewind(struct span_marks *marks, const uint64_t *passed) {
  marks->next_turn = 0;
  for (uint32_t thread = 0; thread < marks->threads; thread++) {
    marks->events[thread] = passed ? passed[thread] : 0;
    marks->next_place[thread] = SIZE_MAX;
  }
  for (size_t i = marks->places.count; i-- > 0;)
    marks->next_place[marks->places.at[i].thread] = i;
}

/* passed: events of each thread that the reader leaves out; NULL: none. Returns 0, or -1 with error; marks can be freed
   either way. */
static int span_marks_load(struct span_marks *marks, struct trace_reader *reader, const uint64_t *passed,
                           struct error *error) {
  *marks = (struct span_marks){.threads = trace_reader_summary(reader)->threads};
  int result = trace_reader_marks(reader, add, marks, error);
  marks->events = calloc(marks->threads + 1, sizeof *marks->events);
  marks->next_place = calloc(marks->threads + 1, sizeof *marks->next_place);
  if (result > 0 || !marks->events || !marks->next_place)
    return error_set(error, trace_reader_path(reader), "out of memory");
  vector_sort(&marks->turns, by_stamp);
  vector_sort(&marks->places, by_thread);
  span_marks_rewind(marks, passed);
  return result;
}

static void span_marks_free(struct span_marks *marks) {
  for (size_t i = 0; i < marks->turns.count; i++)
    free(marks->turns.at[i].name);
  free(marks->turns.at);
  free(marks->places.at);
  free(marks->events);
  free(marks->next_place);
  *marks = (struct span_marks){0};
}

/* Returns the next of turns that comes before an event of that thread with that stamp; NULL: none is left. Call it
   until it returns NULL. */
static const struct span_mark *span_marks_turn(struct span_marks *marks, uint32_t thread, uint64_t stamp) {
  if (marks->next_turn == marks->turns.count)
    return NULL;
  const struct span_mark *mark = &marks->turns.at[marks->next_turn];
  if (mark->stamp > stamp && (mark->thread != thread || mark->events > marks->events[thread]))
    return NULL;
  marks->next_turn++;
  return mark;
}

/* Returns the place at which the thread is; 0: no mark gave one. */
static uint32_t span_marks_place(struct span_marks *marks, uint32_t thread) {
  size_t *next = &marks->next_place[thread];
  uint32_t place = 0;
  for (; *next < marks->places.count && marks->places.at[*next].thread == thread &&
         marks->places.at[*next].events <= marks->events[thread];
       ++*next)
    place = marks->places.at[*next].place;
  if (place == 0 && *next != SIZE_MAX && *next > 0 && marks->places.at[*next - 1].thread == thread)
    place = marks->places.at[*next - 1].place;
  return place;
}

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

static json_t *frames_json(const struct span_sites *sites, uint32_t node) {
  json_t *frames = json_array();
  for (; sites->symbols && node; node = symbols_parent(sites->symbols, node)) {
    size_t count;
    const struct symbol *symbol = symbols_of(sites->symbols, node, &count);
    for (size_t i = 0; i < count; i++)
      json_array_append_new(frames, symbol_json(&symbol[i]));
  }
  return frames;
}

static json_t *site_json(const struct span_sites *sites, const struct site *site) {
  return json_pack("{sI sI so so}", "bytes", (json_int_t)site->bytes, "objects", (json_int_t)site->objects, "place",
                   site->place ? json_integer(site->place) : json_null(), "frames", frames_json(sites, site->stack));
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
