/* SPDX-License-Identifier: MIT */
#include "convert/distil/layout.h"

#include "convert/distil/object_walk.h"
#include "core/base/os.h"

#include <stdlib.h>

/* Points between windows: enough to show a change in the whole's rate of releases, and small compared with 1 MiB of
   INFO. */
enum { POINTS_BETWEEN = 2048 };

enum edge { EDGE_BEGIN, EDGE_COUNTED, EDGE_END, EDGES };

struct laying {
  struct layout *layout;
  const struct kept_objects *kept;
  struct object_walk walk;
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
  const struct object_walk *walk = &laying->walk;
  const struct workload_ops_op *op = &walk->ops.op;
  bool wanted;
  layout->whole_calls[op->call & CALL_ID_MASK]++;
  if (walk->effect == OP_BIRTH || walk->effect == OP_ALONE) {
    wanted = kept_objects_wants(laying->kept, walk->objects - 1);
    layout->objects += wanted;
  } else {
    wanted = laying->wanted[op->slot];
  }
  if (walk->effect == OP_BIRTH)
    laying->wanted[op->slot] = wanted;
  layout->ops += wanted;
}

static int lay(struct laying *laying, const struct workload *workload, struct error *error) {
  laying->wanted_bytes = workload->header.slots + 1ull;
  laying->wanted = os_map(laying->wanted_bytes, false);
  laying->step = workload->header.ops / POINTS_BETWEEN + 1;
  int got = object_walk_open(&laying->walk, workload, error);
  if (got == 0 && !laying->wanted)
    got = error_set(error, workload->path, "out of memory");
  if (got != 0)
    return -1;
  while ((got = object_walk_next(&laying->walk, error)) > 0) {
    if (laying->walk.ops.op.position == laying->next && note_position(laying, laying->next) != 0)
      return error_set(error, workload->path, "out of memory");
    take_op(laying);
  }
  if (got == 0 && note_position(laying, workload->header.ops) != 0)
    return error_set(error, workload->path, "out of memory");
  return got;
}

int layout_make(struct layout *layout, const struct kept_objects *kept, const struct workload *workload,
                struct error *error) {
  struct laying laying = {.layout = layout, .kept = kept};
  *layout = (struct layout){0};
  int result = lay(&laying, workload, error);
  object_walk_close(&laying.walk);
  if (laying.wanted)
    os_unmap(laying.wanted, laying.wanted_bytes);
  return result;
}

void layout_free(struct layout *layout) {
  free(layout->points.at);
}
