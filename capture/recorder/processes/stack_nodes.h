/* SPDX-License-Identifier: MIT */
/* One recorded process's tree of call stacks on its way into the trace: the collector's side of stack_area.h.

   Job: the area's memory, translation of host nodes to trace nodes, and the modules that contain them. Invariants: what
   the host wrote is checked; a node is written once, and again when a library has replaced another. In the recorder;
   allocates with malloc; one thread. */
#pragma once

#include "capture/recorder/processes/modules.h"
#include "capture/wire/stack_area.h"
#include "core/base/vector.h"
#include "core/trace/write/trace_write.h"

struct stack_nodes {
  int pid;
  struct stack_area *area;  /* NULL: the process has none */
  VECTOR(uint32_t) node_of; /* trace node by host node, 0: not written yet; only its room counts */
  uint32_t generation;
  uint64_t quiet_until_ns; /* code in no module does not make us look at modules before that */
  uint32_t in_vain;        /* successive looks of this kind that found nothing */
  struct modules modules;
};

/* Makes the area and returns its descriptor, which the caller passes on and closes; -1 with errno set. */
int stack_nodes_open(struct stack_nodes *nodes, int pid, struct trace_writer *writer);

/* The trace's node for one of the host; 0: not known, or not a node. */
uint32_t stack_nodes_take(struct stack_nodes *nodes, struct trace_writer *writer, uint32_t node);

/* The trace continues in a new file: modules are written there now, nodes when they are next needed. */
void stack_nodes_renew(struct stack_nodes *nodes, struct trace_writer *writer);

/* The instructions of a host node and of its callers, innermost first, at most `most`; returns how many. */
uint32_t stack_nodes_frames(const struct stack_nodes *nodes, uint32_t node, uint64_t *frames, uint32_t most);

/* stack_nodes_requested: the number of the host's latest request, to be read before its rings are drained;
   stack_nodes_answer: answers it afterwards. */
uint32_t stack_nodes_requested(const struct stack_nodes *nodes);
void stack_nodes_answer(struct stack_nodes *nodes, uint32_t requested);

/* The number of stacks that the host could not walk, or for which there was no room. */
uint32_t stack_nodes_lost(const struct stack_nodes *nodes);

void stack_nodes_close(struct stack_nodes *nodes);
