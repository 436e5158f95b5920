/* SPDX-License-Identifier: MIT */
/* Walks a workload's ops in their total order, and tells what each does to its object.

   Objects are numbered from 0 in the order of their births; a call that is given NULL and acquires nothing counts as
   one, born and gone there (as in convert/rewrite/workload_trace.h). Invariant: an op that is given is on a slot that
   is as the op needs it. Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/workload/workload_ops.h"

enum op_effect {
  OP_ALONE,   /* of no object: no slot */
  OP_BIRTH,   /* the object begins */
  OP_CHANGES, /* the object is there before and after */
  OP_DEATH,   /* the object ends */
};

struct object_walk {
  struct workload_ops ops; /* ops.op: the op that was given last */
  enum op_effect effect;   /* its */
  uint64_t objects;        /* begun so far, those that are alone included */
  uint8_t *full;           /* by slot */
  uint64_t full_bytes;
};

/* Returns 0, or -1 with error; it can be closed either way. */
int object_walk_open(struct object_walk *walk, const struct workload *workload, struct error *error);
void object_walk_close(struct object_walk *walk);

/* Moves on to the next op. Returns 1; 0 at the end; -1 with error: the workload is not legal. */
int object_walk_next(struct object_walk *walk, struct error *error);

/* Does it release its object, if only to acquire another in its place? */
bool object_walk_releases(const struct object_walk *walk);

/* What the op requests in all. */
uint64_t object_walk_request_bytes(const struct object_walk *walk);
