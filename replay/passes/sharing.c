/* SPDX-License-Identifier: MIT */
#include "replay/passes/sharing.h"

#include <errno.h>
#include <string.h>

static struct line_sharing *sharing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int sharing_setup(struct replay_result *result) {
  sharing = line_sharing_begin(&result->sharing, engine.workload.header.ops, 1);
  return sharing ? 0 : -1;
}

static bool lives(const struct object *object) {
  return object->pointer && object->size_bytes != OBJECT_MISSING;
}

/* Returns whether the call releases the object's memory, or may release it. */
static bool lets_go(struct call_plan plan) {
  return (plan.traits & CALL_TAKES) && (plan.traits & (CALL_RELEASES | CALL_ACQUIRES));
}

void sharing_before_call(const struct replay_thread *self, struct call_plan plan, const struct op *op,
                         const struct object *object) {
  if (!lets_go(plan) || !lives(object))
    return;
  pthread_mutex_lock(&lock);
  line_sharing_remove(sharing, op->slot, self->number);
  pthread_mutex_unlock(&lock);
}

void sharing_after_call(const struct replay_thread *self, struct call_plan plan, const struct op *op,
                        const struct object *object) {
  bool added = (plan.traits & CALL_ACQUIRES) && lives(object);
  pthread_mutex_lock(&lock);
  int status = added ? line_sharing_add(sharing, op->slot, (uint64_t)(uintptr_t)object->pointer, object->size_bytes,
                                        self->number)
                     : 0;
  line_sharing_after_op(sharing);
  pthread_mutex_unlock(&lock);
  if (status != 0)
    engine_fail(NULL, "no memory to count shared cache lines with: %s", strerror(errno));
}

void sharing_end(void) {
  line_sharing_end(sharing);
}
