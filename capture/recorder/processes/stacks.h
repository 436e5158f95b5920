/* SPDX-License-Identifier: MIT */
/* One recorded process's tree of call stacks on its way into the trace: the collector's side of stack_area.h; and the
   modules that contain the code of its nodes: which executables and libraries the process has mapped, and where, from
   /proc/PID/maps, with build ids from the files.

   Not its job: passing on the area's descriptor. Invariants: what the host wrote is checked; a node is written once,
   and again when a library has replaced another. In the recorder; allocates with malloc; one thread. */
#pragma once

#include "capture/wire/stack_area.h"
#include "core/base/vector.h"
#include "core/trace/summary.h"
#include "core/trace/write/trace_write.h"

#include <stdbool.h>
#include <stddef.h>

/* All zero: nothing has been read. */
struct modules {
  struct module {
    struct trace_module record; /* texts are owned */
    uint64_t device, inode;
    bool is_new; /* at the last refresh */
    bool gone;   /* no longer mapped, and nothing in its place yet */
  } * at;        /* by address; vector.h */
  size_t count, room;
};

struct stack_nodes {
  int pid;
  struct stack_area *area;  /* NULL: the process has none */
  VECTOR(uint32_t) node_of; /* trace node by host node, 0: not written yet; only its room counts */
  uint32_t generation;
  uint64_t quiet_until_ns; /* code in no module does not make us read the modules again before that */
  uint32_t in_vain;        /* successive refreshes of this kind that found nothing */
  struct modules modules;
};

/* area: new memory that the process will share; stack_nodes_close unmaps it. */
void stack_nodes_open(struct stack_nodes *nodes, int pid, struct stack_area *area, struct trace_writer *writer);

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
