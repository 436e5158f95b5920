/* SPDX-License-Identifier: MIT */
/* Walks a workload's ops in their total order, as a history hands on those of a trace (convert/history/history.h).

   Objects are numbered from 0 in the order of their births; a call that is given NULL and acquires nothing counts as an
   object that is born and ends there. Invariant: the slot of each op is in the state that the op needs. Not its job:
   streams and words (core/workload/workload_read.h). Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/workload/workload_read.h"

struct op_walk {
  struct workload_ops ops; /* ops.op: the current op as in the file */
  struct history_op op;    /* the same for users of histories; its touched_os_pages, stamp and event are not set */
  uint64_t objects;        /* begun so far, including those of HISTORY_NOTHING */
  uint8_t *full;           /* by slot */
  uint64_t full_bytes;
};

/* Returns 0, or -1 with error; it can be closed either way. */
int op_walk_open(struct op_walk *walk, const struct workload *workload, struct error *error);
void op_walk_close(struct op_walk *walk);

/* Moves to the next op. Returns 1; 0 at the end; -1 with error: the workload is not legal. */
int op_walk_next(struct op_walk *walk, struct error *error);

/* Does the current op release its object, even if only to acquire another in its place? */
static inline bool op_walk_releases(const struct op_walk *walk) {
  return walk->op.kind == HISTORY_RELEASE || walk->op.kind == HISTORY_MOVE;
}
