/* SPDX-License-Identifier: MIT */
/* Births of objects that a rewriting moves to another place in their thread: the data kept of each until then.

   Early: all births of the group, in the order of each thread, collected in a separate run. Late: pending births, by
   the object's slot in the history. Memory is O(births kept). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/vector.h"

#define BIRTHS_NONE UINT32_MAX

struct birth {
  uint64_t size_bytes, param, request_bytes;
  uint32_t thread, stack;
  uint32_t slot;           /* the rewritten object's; BIRTHS_NONE: not born yet */
  uint32_t next, previous; /* of the thread */
  uint8_t call;
};

struct moved_births {
  VECTOR(struct birth) births;
  uint32_t free_list;     /* by next; BIRTHS_NONE: empty */
  uint32_t *first, *last; /* of each thread */
};

/* Returns 0, or -1: no memory; it can be freed either way. */
int moved_births_init(struct moved_births *moved, uint32_t threads);
void moved_births_free(struct moved_births *moved);

/* Adds the birth as the last one of its thread; returns its number, BIRTHS_NONE: no memory. */
uint32_t moved_births_add(struct moved_births *moved, const struct history_op *op);

/* Removes it from its thread's list; its number is reused. */
void moved_births_remove(struct moved_births *moved, uint32_t number);

/* Returns the op of the birth at that time, to be handed on; fills in event with what the op needs of it. */
struct history_op moved_birth_op(const struct birth *birth, uint64_t stamp, struct trace_event *event);
