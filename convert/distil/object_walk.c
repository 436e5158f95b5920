/* SPDX-License-Identifier: MIT */
#include "convert/distil/object_walk.h"

#include "core/base/os.h"
#include "core/trace/event.h"

#include <inttypes.h>

static int wrong(const struct object_walk *walk, struct error *error, const char *what) {
  return error_set(error, walk->ops.workload->path, "op at position %" PRIu64 ": %s", walk->ops.op.position, what);
}

int object_walk_open(struct object_walk *walk, const struct workload *workload, struct error *error) {
  *walk = (struct object_walk){.full_bytes = workload->header.slots + 1ull};
  /* Mapped: slots that no op uses cost no memory, whatever the header claims. */
  walk->full = os_map(walk->full_bytes, false);
  if (!walk->full)
    return error_set(error, workload->path, "out of memory");
  return workload_ops_open(&walk->ops, workload, error);
}

void object_walk_close(struct object_walk *walk) {
  workload_ops_close(&walk->ops);
  if (walk->full)
    os_unmap(walk->full, walk->full_bytes);
}

/* The op as an event with the fields that its traits need. */
static struct trace_event event_of(const struct workload_ops_op *op) {
  return (struct trace_event){.call = op->call, .size_bytes = op->size_bytes, .param = op->param};
}

uint64_t object_walk_request_bytes(const struct object_walk *walk) {
  struct trace_event event = event_of(&walk->ops.op);
  return trace_event_request_bytes(&event);
}

bool object_walk_releases(const struct object_walk *walk) {
  struct trace_event event = event_of(&walk->ops.op);
  return trace_event_releases(&event);
}

static int take_object(struct object_walk *walk, struct error *error) {
  const struct workload_ops_op *op = &walk->ops.op;
  struct trace_event event = event_of(op);
  bool given = trace_event_takes(&event);
  if (op->slot >= walk->ops.workload->header.slots || walk->full[op->slot] != given)
    return wrong(walk, error, "its slot is not in the state that the call needs");
  bool stays = trace_event_acquires(&event) || !trace_event_releases(&event);
  walk->effect = !given ? OP_BIRTH : stays ? OP_CHANGES : OP_DEATH;
  walk->full[op->slot] = stays;
  walk->objects += !given;
  return 1;
}

int object_walk_next(struct object_walk *walk, struct error *error) {
  int got = workload_ops_next(&walk->ops, error);
  if (got <= 0)
    return got;
  if (walk->ops.op.slot != WORKLOAD_NO_SLOT)
    return take_object(walk, error);
  if (!(walk->ops.op.call & CALL_NULL_IN) || (call_traits[walk->ops.op.call] & EVENT_ACQUIRES))
    return wrong(walk, error, "has no slot, though it acts on an object");
  walk->effect = OP_ALONE;
  walk->objects++;
  return 1;
}
