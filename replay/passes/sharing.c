/* SPDX-License-Identifier: MIT */
/* The sharing pass: which cache lines hold live objects of several threads under this allocator
   (core/sharing/line_sharing.h).

   Job: report each acquire and release to the line counter, in the order in which they happen. Invariants: any order
   of replay; where threads run side by side, an object is removed before its memory can be handed out again, and
   added after it was handed out, so no line is counted as shared that was not. The default is the recorded order:
   the layout depends on which thread requests what, and in which order. Each workload thread is a real thread, so
   caches and arenas of threads act as in the program, and the figures are the same in each run. Owners are the
   workload's threads. */
#include "core/sharing/line_sharing.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"

#include <errno.h>
#include <string.h>

static struct line_sharing *sharing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void setup(void) {
  sharing = line_sharing_begin(engine.figures, engine.workload.header.ops, 1);
  if (!sharing)
    engine_fail(NULL, "no memory to count shared cache lines with: %s", strerror(errno));
}

static bool lives(const struct object *object) {
  return object->pointer && object->size_bytes != OBJECT_MISSING;
}

/* Returns whether the call releases the object's memory, or may release it. */
static bool lets_go(struct call_dispatch dispatch) {
  return (dispatch.traits & CALL_TAKES) && (dispatch.traits & (CALL_RELEASES | CALL_ACQUIRES));
}

static ALWAYS_INLINE int64_t before_op(const struct step *step) {
  if (!lets_go(step->dispatch) || !lives(step->object))
    return 0;
  pthread_mutex_lock(&lock);
  line_sharing_remove(sharing, step->op->slot, step->self->number);
  pthread_mutex_unlock(&lock);
  return 0;
}

static ALWAYS_INLINE void after_op(const struct step *step, int64_t before) {
  (void)before;
  const struct object *object = step->object;
  int status = 0;
  pthread_mutex_lock(&lock);
  if ((step->dispatch.traits & CALL_ACQUIRES) && lives(object))
    status = line_sharing_add(sharing, step->op->slot, (uint64_t)(uintptr_t)object->pointer, object->size_bytes,
                              step->self->number);
  line_sharing_after_op(sharing);
  pthread_mutex_unlock(&lock);
  if (status != 0)
    engine_fail(NULL, "no memory to count shared cache lines with: %s", strerror(errno));
}

static void end(void) {
  line_sharing_end(sharing);
}

static const struct loop_hooks hooks = {.before_op = before_op, .after_op = after_op};
PASS_LOOPS(sharing, hooks, hooks)

static void report(json_t *into, const struct run *run) {
  json_object_set_new(into, "line_sharing", line_sharing_json(run->figures));
}

static uint64_t counted(const struct run *run) {
  const struct line_sharing_counts *counts = run->figures;
  return counts->ops;
}

static const struct pass pass_sharing = {
    .turn = 60,
    .name = "sharing",
    .summary = "cache lines with live objects of several threads",
    .order = ORDER_RECORDED,
    .repeats = TWICE,
    .exact = true,
    .loops = {sharing_freely, sharing_by_turns},
    .figures_bytes = sizeof(struct line_sharing_counts),
    .setup = setup,
    .end = end,
    .report = report,
    .counts = "ops with their lines",
    .counted = counted,
};
REGISTER_PASS(pass_sharing);
