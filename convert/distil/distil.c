/* SPDX-License-Identifier: MIT */
#include "convert/distil/distil.h"

#include "convert/rewrite/rewrite.h"
#include "core/base/json.h"
#include "core/base/os.h"
#include "core/base/vector.h"
#include "core/trace/event.h"
#include "core/trace/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Returns what is wrong with the window; NULL: nothing. */
static const char *take_window(struct distil_plan *plan, json_t *row) {
  json_int_t begin, counted, end;
  double weight;
  if (json_unpack(row, "[I,I,I,F!]", &begin, &counted, &end, &weight) != 0)
    return "is not [begin, counted, end, weight]";
  if (begin < 0 || begin > counted || counted >= end)
    return "does not rise, or is empty";
  if (plan->windows.count > 0 && (uint64_t)begin < plan->windows.at[plan->windows.count - 1].end)
    return "begins before the end of the one before it";
  if (plan->windows.count == DISTIL_WINDOWS_LIMIT)
    return "is one too many: at most 4096 are allowed";
  struct distil_window *added = vector_add(&plan->windows);
  if (!added)
    return "does not fit: out of memory";
  *added = (struct distil_window){(uint64_t)begin, (uint64_t)counted, (uint64_t)end, weight};
  return NULL;
}

static int take_windows(struct distil_plan *plan, const json_t *windows, const char *name, struct error *error) {
  if (!json_is_array(windows))
    return error_set(error, name, "no windows");
  for (size_t i = 0; i < json_array_size(windows); i++) {
    const char *what = take_window(plan, json_array_get(windows, i));
    if (what)
      return error_set(error, name, "window %zu %s", i, what);
  }
  return 0;
}

static int take_plan(struct distil_plan *plan, json_t *object, const char *name, struct error *error) {
  json_t *windows, *manifest = NULL;
  const char *heap = "live";
  json_int_t highs = 0, seed = 0, large_bytes = INT64_MAX;
  json_error_t wrong;
  if (json_unpack_ex(object, &wrong, JSON_STRICT, "{s:o, s?s, s?I, s?F, s?{s:I, s:F}, s?I, s?o}", "windows", &windows,
                     "heap", &heap, "highs", &highs, "churn", &plan->churn, "large", "bytes", &large_bytes, "share",
                     &plan->large_share, "seed", &seed, "manifest", &manifest) != 0)
    return error_set(error, name, "%s", wrong.text);
  if (manifest && !json_is_object(manifest))
    return error_set(error, name, "\"manifest\" needs an object");
  if (strcmp(heap, "live") != 0 && strcmp(heap, "touched") != 0)
    return error_set(error, name, "\"heap\" needs \"live\" or \"touched\"");
  if (highs < 0 || highs > DISTIL_HIGHS_LIMIT)
    return error_set(error, name, "\"highs\" needs a number of parts, %d at most", DISTIL_HIGHS_LIMIT);
  if (!(plan->churn >= 0 && plan->churn <= 1) || !(plan->large_share >= 0 && plan->large_share <= 1) || large_bytes < 0)
    return error_set(error, name, "\"churn\" and \"share\" need a share, 0 to 1, and \"bytes\" a number of bytes");
  plan->heap = strcmp(heap, "live") == 0 ? HEAP_LIVE : HEAP_TOUCHED;
  plan->highs = (uint64_t)highs;
  plan->seed = (uint64_t)seed;
  plan->large_bytes = large_bytes == INT64_MAX ? UINT64_MAX : (uint64_t)large_bytes;
  plan->manifest = manifest ? json_incref(manifest) : json_object();
  return take_windows(plan, windows, name, error);
}

int distil_plan_parse(struct distil_plan *plan, const char *text, size_t bytes, const char *name, struct error *error) {
  *plan = (struct distil_plan){.large_bytes = UINT64_MAX};
  json_error_t wrong;
  json_t *object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &wrong);
  if (!object)
    return error_at(error, name, wrong.position < 0 ? 0 : (uint64_t)wrong.position, "%s", wrong.text);
  int result = take_plan(plan, object, name, error);
  json_decref(object);
  return result;
}

void distil_plan_free(struct distil_plan *plan) {
  free(plan->windows.at);
  json_decref(plan->manifest);
}

/* Where the windows of the plan are in a distillate, and which position in the whole corresponds to each of its
   positions.

   One walk over all ops. Memory is that of the walk and of the layout. */

/* A window's edges: positions in the distillate. */
struct layout_window {
  uint64_t begin, counted, end;
};

struct layout_point {
  uint64_t position, whole;
};

struct layout {
  struct layout_window windows[DISTIL_WINDOWS_LIMIT]; /* by window of the plan */
  VECTOR(struct layout_point) points; /* whole rises strictly, position never falls; (0, 0) to the end */
  uint64_t ops, objects;              /* of the distillate */
  uint64_t whole_calls[CALL_LIMIT];
};

/* Points between windows: enough to show a change in the whole's rate of releases, and small compared with 1 MiB of
   INFO. */
enum { POINTS_BETWEEN = 2048 };

enum edge { EDGE_BEGIN, EDGE_COUNTED, EDGE_END, EDGES };

struct laying {
  struct layout *layout;
  const struct kept_objects *kept;
  struct op_walk walk;
  uint8_t *wanted; /* by slot */
  uint64_t wanted_bytes, step, next;
  size_t window;
  enum edge edge; /* the next edge, of that window */
};

static uint64_t edge_position(const struct distil_window *window, enum edge edge) {
  return edge == EDGE_BEGIN ? window->begin : edge == EDGE_COUNTED ? window->counted : window->end;
}

static int add_point(struct laying *laying, uint64_t whole) {
  struct layout *layout = laying->layout;
  if (layout->points.count > 0 && layout->points.at[layout->points.count - 1].whole == whole)
    return 0;
  struct layout_point *point = vector_add(&layout->points);
  if (!point)
    return -1;
  *point = (struct layout_point){layout->ops, whole};
  return 0;
}

/* Passes all edges at that position of the whole. Returns whether a point is needed there. */
static bool pass_edges(struct laying *laying, uint64_t whole) {
  const struct distil_plan *plan = laying->kept->plan;
  bool turns = false;
  while (laying->window < plan->windows.count &&
         edge_position(&plan->windows.at[laying->window], laying->edge) == whole) {
    struct layout_window *window = &laying->layout->windows[laying->window];
    *(laying->edge == EDGE_BEGIN     ? &window->begin
      : laying->edge == EDGE_COUNTED ? &window->counted
                                     : &window->end) = laying->layout->ops;
    turns |= laying->edge != EDGE_COUNTED;
    laying->edge = (laying->edge + 1) % EDGES;
    laying->window += laying->edge == EDGE_BEGIN;
  }
  return turns;
}

/* Call it before the op at that position of the whole, and after the last op. */
static int note_position(struct laying *laying, uint64_t whole) {
  const struct distil_plan *plan = laying->kept->plan;
  bool turns = pass_edges(laying, whole), between = laying->edge == EDGE_BEGIN;
  bool ends = whole == 0 || whole == laying->walk.ops.workload->header.ops;
  if ((turns || ends || (between && whole % laying->step == 0)) && add_point(laying, whole) != 0)
    return -1;
  laying->next = whole - whole % laying->step + laying->step;
  if (laying->window < plan->windows.count) {
    uint64_t edge = edge_position(&plan->windows.at[laying->window], laying->edge);
    laying->next = edge < laying->next ? edge : laying->next;
  }
  return 0;
}

static void take_op(struct laying *laying) {
  struct layout *layout = laying->layout;
  const struct op_walk *walk = &laying->walk;
  const struct workload_ops_op *op = &walk->ops.op;
  bool wanted;
  layout->whole_calls[op->call & CALL_ID_MASK]++;
  if (walk->op.kind == HISTORY_ACQUIRE || walk->op.kind == HISTORY_NOTHING) {
    wanted = kept_objects_wants(laying->kept, walk->objects - 1);
    layout->objects += wanted;
  } else {
    wanted = laying->wanted[op->slot];
  }
  if (walk->op.kind == HISTORY_ACQUIRE)
    laying->wanted[op->slot] = wanted;
  layout->ops += wanted;
}

static int lay(struct laying *laying, const struct workload *workload, struct error *error) {
  laying->wanted_bytes = workload->header.slots + 1ull;
  laying->wanted = os_map(laying->wanted_bytes, false);
  laying->step = workload->header.ops / POINTS_BETWEEN + 1;
  int got = op_walk_open(&laying->walk, workload, error);
  if (got == 0 && !laying->wanted)
    got = error_set(error, workload->path, "out of memory");
  if (got != 0)
    return -1;
  while ((got = op_walk_next(&laying->walk, error)) > 0) {
    if (laying->walk.ops.op.position == laying->next && note_position(laying, laying->next) != 0)
      return error_set(error, workload->path, "out of memory");
    take_op(laying);
  }
  if (got == 0 && note_position(laying, workload->header.ops) != 0)
    return error_set(error, workload->path, "out of memory");
  return got;
}

static int layout_make(struct layout *layout, const struct kept_objects *kept, const struct workload *workload,
                       struct error *error) {
  struct laying laying = {.layout = layout, .kept = kept};
  *layout = (struct layout){0};
  int result = lay(&laying, workload, error);
  op_walk_close(&laying.walk);
  if (laying.wanted)
    os_unmap(laying.wanted, laying.wanted_bytes);
  return result;
}

static void layout_free(struct layout *layout) {
  free(layout->points.at);
}

enum { MANIFEST_VERSION = 2, MANIFEST_BYTES = 1000000 };

static bool is_distilled(const struct workload *workload) {
  size_t bytes;
  const char *text = workload_info(workload, &bytes);
  json_t *info = json_loadb(text, bytes, 0, NULL);
  bool distilled = json_object_get(info, "distilled") != NULL;
  json_decref(info);
  return distilled;
}

static int check_plan(const struct workload *workload, const struct distil_plan *plan, struct error *error) {
  uint64_t ops = workload->header.ops, count = plan->windows.count, end = count ? plan->windows.at[count - 1].end : 0;
  const json_t *given = json_object_get(json_object_get(plan->manifest, "whole"), "ops");
  if (is_distilled(workload))
    return error_set(error, workload->path, "is a distillate itself");
  if (end > ops)
    return error_set(error, workload->path, "has %" PRIu64 " ops: the plan's last window ends at %" PRIu64, ops, end);
  if (given && (uint64_t)json_integer_value(given) != ops)
    return error_set(error, workload->path, "has %" PRIu64 " ops: the plan is for a workload of %" PRIu64, ops,
                     (uint64_t)json_integer_value(given));
  return 0;
}

static json_t *segments_json(const struct layout *layout, const struct distil_plan *plan) {
  json_t *segments = json_array();
  for (size_t i = 0; i < plan->windows.count; i++) {
    const struct distil_window *window = &plan->windows.at[i];
    const struct layout_window *at = &layout->windows[i];
    json_array_append_new(segments, json_pack("[oooooo]", json_unsigned(at->begin), json_unsigned(at->counted),
                                              json_unsigned(at->end), json_unsigned(window->counted),
                                              json_unsigned(window->end), json_real(window->weight)));
  }
  return segments;
}

static json_t *map_json(const struct layout *layout) {
  json_t *map = json_array();
  for (size_t i = 0; i < layout->points.count; i++)
    json_array_append_new(map, json_pack("[oo]", json_unsigned(layout->points.at[i].position),
                                         json_unsigned(layout->points.at[i].whole)));
  return map;
}

static json_t *whole_json(const struct layout *layout, const struct workload *workload, const json_t *given) {
  json_t *whole = json_is_object(given) ? json_deep_copy(given) : json_object();
  json_set_count(whole, "ops", workload->header.ops);
  json_set_count(whole, "threads", workload->header.threads);
  json_object_set_new(whole, "calls", call_counts_json(layout->whole_calls));
  json_set_count(whole, "peak_live_bytes", workload->header.peak_live_bytes);
  return whole;
}

/* The rules by which objects were kept, added to `kept` of the plan's manifest. */
static json_t *kept_json(const struct distil_plan *plan) {
  json_t *given = json_object_get(plan->manifest, "kept");
  json_t *kept = json_is_object(given) ? json_deep_copy(given) : json_object();
  json_object_set_new(kept, "heap", json_string(plan->heap == HEAP_LIVE ? "live" : "touched"));
  json_set_count(kept, "highs", plan->highs);
  json_object_set_new(kept, "churn", json_real(plan->churn));
  if (plan->large_bytes != UINT64_MAX)
    json_object_set_new(kept, "large",
                        json_pack("{sosf}", "bytes", json_unsigned(plan->large_bytes), "share", plan->large_share));
  json_set_count(kept, "seed", plan->seed);
  return kept;
}

/* The plan's manifest; keys that follow from the workload replace the plan's. */
static json_t *manifest_json(const struct layout *layout, const struct workload *workload,
                             const struct distil_plan *plan) {
  json_t *manifest = json_deep_copy(plan->manifest);
  double ratio = workload->header.ops ? (double)layout->ops / (double)workload->header.ops : 1;
  json_object_set_new(manifest, "version", json_integer(MANIFEST_VERSION));
  if (!json_object_get(manifest, "kind"))
    json_object_set_new(manifest, "kind", json_string("both"));
  json_object_set_new(manifest, "whole", whole_json(layout, workload, json_object_get(plan->manifest, "whole")));
  json_object_set_new(manifest, "ratio", json_real(ratio));
  json_object_set_new(manifest, "kept", kept_json(plan));
  json_object_set_new(manifest, "segments", segments_json(layout, plan));
  json_object_set_new(manifest, "map", map_json(layout));
  return manifest;
}

struct writing {
  const struct kept_objects *kept;
  size_t window; /* number in the plan: the first window that does not end before the op */
};

static bool wants(void *context, uint64_t number) {
  return kept_objects_wants(((struct writing *)context)->kept, number);
}

static bool plays(void *context, uint64_t position) {
  struct writing *writing = context;
  return distil_plan_has(writing->kept->plan, &writing->window, position);
}

static int write_trace(const struct workload *workload, struct kept_objects *kept, json_t *manifest, const char *path,
                       struct error *error) {
  struct writing writing = {.kept = kept};
  struct workload_trace_selection wanted = {.end = UINT64_MAX,
                                            .wants = wants,
                                            .plays = plays,
                                            .context = &writing,
                                            .distilled = manifest,
                                            .accesses = kept->plan->accesses};
  struct workload_trace_counts counts;
  size_t bytes = json_dumpb(manifest, NULL, 0, JSON_COMPACT | JSON_REAL_PRECISION(12));
  if (bytes > MANIFEST_BYTES)
    return error_set(error, path, "the manifest would have %zu bytes, the limit is %d: plan fewer windows", bytes,
                     MANIFEST_BYTES);
  return workload_trace_write(workload, &wanted, path, &counts, error);
}

static void count(struct distil_counts *counts, const struct layout *layout, const struct workload *workload,
                  const struct distil_plan *plan) {
  *counts = (struct distil_counts){.ops = layout->ops, .whole_ops = workload->header.ops, .objects = layout->objects};
  for (size_t i = 0; i < plan->windows.count; i++) {
    counts->counted_ops += layout->windows[i].end - layout->windows[i].counted;
    counts->warm_up_ops += layout->windows[i].counted - layout->windows[i].begin;
  }
}

/* Its table of windows is too large for a stack. */
static int lay_out_and_write(const struct workload *workload, struct kept_objects *kept, const char *path,
                             struct distil_counts *counts, struct error *error) {
  struct layout *layout = malloc(sizeof *layout);
  if (!layout)
    return error_set(error, workload->path, "out of memory");
  int result = layout_make(layout, kept, workload, error);
  if (result == 0)
    count(counts, layout, workload, kept->plan);
  if (result == 0 && path) {
    json_t *manifest = manifest_json(layout, workload, kept->plan);
    result = write_trace(workload, kept, manifest, path, error);
    json_decref(manifest);
  }
  layout_free(layout);
  free(layout);
  return result;
}

int distil_write(const struct workload *workload, const struct distil_plan *plan, const char *path,
                 struct distil_counts *counts, struct error *error) {
  struct kept_objects kept;
  if (check_plan(workload, plan, error) != 0)
    return -1;
  int result = kept_objects_choose(&kept, workload, plan, error);
  if (result == 0)
    result = lay_out_and_write(workload, &kept, path, counts, error);
  kept_objects_free(&kept);
  return result;
}
