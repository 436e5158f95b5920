/* SPDX-License-Identifier: MIT */
/* Walks a workload's ops in their total order, and gives the effect of each on its object.

   Objects are numbered from 0 in the order of their births; a call that is given NULL and acquires nothing counts as an
   object that is born and ends there (as in convert/rewrite/workload_trace.h). Invariant: the slot of each op is in the
   state that the op needs. Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/workload/workload_read.h"

enum op_effect {
  OP_ALONE,   /* on no object: no slot */
  OP_BIRTH,   /* the object begins */
  OP_CHANGES, /* the object is there before and after */
  OP_DEATH,   /* the object ends */
};

struct object_walk {
  struct workload_ops ops; /* ops.op: the current op */
  enum op_effect effect;   /* the current op's */
  uint64_t objects;        /* begun so far, including those of OP_ALONE */
  uint8_t *full;           /* by slot */
  uint64_t full_bytes;
};

/* Returns 0, or -1 with error; it can be closed either way. */
int object_walk_open(struct object_walk *walk, const struct workload *workload, struct error *error);
void object_walk_close(struct object_walk *walk);

/* Moves to the next op. Returns 1; 0 at the end; -1 with error: the workload is not legal. */
int object_walk_next(struct object_walk *walk, struct error *error);

/* Does the current op release its object, even if only to acquire another in its place? */
bool object_walk_releases(const struct object_walk *walk);

/* Bytes that the current op requests in total. */
uint64_t object_walk_request_bytes(const struct object_walk *walk);
