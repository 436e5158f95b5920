/* SPDX-License-Identifier: MIT */
#include "convert/history/op_walk.h"

#include "core/base/os.h"

#include <inttypes.h>

static int wrong(const struct op_walk *walk, struct error *error, const char *what) {
  return error_set(error, walk->ops.workload->path, "op at position %" PRIu64 ": %s", walk->ops.op.position, what);
}

int op_walk_open(struct op_walk *walk, const struct workload *workload, struct error *error) {
  *walk = (struct op_walk){.full_bytes = workload->header.slots + 1ull};
  /* Mapped: slots that no op uses cost no memory, whatever the header claims. */
  walk->full = os_map(walk->full_bytes, false);
  if (!walk->full)
    return error_set(error, workload->path, "out of memory");
  return workload_ops_open(&walk->ops, workload, error);
}

void op_walk_close(struct op_walk *walk) {
  workload_ops_close(&walk->ops);
  if (walk->full)
    os_unmap(walk->full, walk->full_bytes);
}

static int take_object(struct op_walk *walk, const struct trace_event *event, struct error *error) {
  struct history_op *op = &walk->op;
  bool given = trace_event_takes(event), releases = trace_event_releases(event), acquires = trace_event_acquires(event);
  if (op->slot >= walk->ops.workload->header.slots || walk->full[op->slot] != given || (!given && !acquires))
    return wrong(walk, error, "its slot is not in the state that the call needs");
  op->kind = !given ? HISTORY_ACQUIRE : !releases ? HISTORY_TOUCH : acquires ? HISTORY_MOVE : HISTORY_RELEASE;
  if (op->kind == HISTORY_ACQUIRE || op->kind == HISTORY_MOVE)
    op->request_bytes = trace_event_request_bytes(event);
  walk->full[op->slot] = op->kind != HISTORY_RELEASE;
  walk->objects += !given;
  return 1;
}

int op_walk_next(struct op_walk *walk, struct error *error) {
  int got = workload_ops_next(&walk->ops, error);
  if (got <= 0)
    return got;
  const struct workload_ops_op *at = &walk->ops.op;
  const uint8_t traits = call_traits[at->call];
  const struct trace_event event = {.call = at->call,
                                    .size_bytes = traits & CALL_HAS_SIZE ? at->size_bytes : 0,
                                    .param = traits & CALL_HAS_PARAM ? at->param : 0};
  walk->op = (struct history_op){.kind = HISTORY_NOTHING,
                                 .call = at->call,
                                 .region = (uint8_t)at->region,
                                 .thread = at->thread,
                                 .slot = SLOTS_NONE,
                                 .size_bytes = event.size_bytes,
                                 .param = event.param};
  if (at->slot != WORKLOAD_NO_SLOT) {
    walk->op.slot = at->slot;
    return take_object(walk, &event, error);
  }
  if (traits & (EVENT_TAKES | EVENT_ACQUIRES))
    return wrong(walk, error, "has no slot, though it acts on an object");
  walk->objects++;
  return 1;
}
