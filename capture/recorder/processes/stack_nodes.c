/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/stack_nodes.h"

#include "capture/recorder/processes/shared_memory.h"
#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Code outside all modules makes us read the modules again, less and less often where nothing is found, as the code may
   be made at run time. */
enum { LOOK_AGAIN_NS = 5000000, IN_VAIN_MAX = 100 };

static void write_module(void *writer, const struct trace_module *module) {
  trace_writer_module(writer, module);
}

static void forget_nodes(struct stack_nodes *nodes) {
  if (nodes->node_of.at)
    memset(nodes->node_of.at, 0, nodes->node_of.room * sizeof *nodes->node_of.at);
}

static void look(struct stack_nodes *nodes, struct trace_writer *writer) {
  nodes->generation = atomic_load(&nodes->area->generation);
  enum modules_change change = modules_look(&nodes->modules, nodes->pid);
  if (change == MODULES_REPLACED) {
    trace_writer_forget_stacks(writer);
    forget_nodes(nodes);
  }
  if (change != MODULES_SAME)
    modules_visit_new(&nodes->modules, write_module, writer);
}

int stack_nodes_open(struct stack_nodes *nodes, int pid, struct trace_writer *writer) {
  if (nodes->area) {
    errno = EEXIST;
    return -1;
  }
  void *memory;
  int fd = shared_memory_open("heaptape-stacks", sizeof *nodes->area, &memory);
  if (fd < 0)
    return -1;
  nodes->area = memory;
  nodes->pid = pid;
  atomic_store(&nodes->area->index_log, STACK_INDEX_FIRST_LOG);
  look(nodes, writer);
  return fd;
}

/* Reads the modules again where the node's code is in none of them, or one may have been replaced. */
static void look_if_needed(struct stack_nodes *nodes, struct trace_writer *writer, uint64_t instruction) {
  bool changed = nodes->generation != atomic_load_explicit(&nodes->area->generation, memory_order_relaxed);
  bool unknown = instruction && !modules_have(&nodes->modules, instruction);
  if (changed)
    look(nodes, writer);
  if (!unknown || os_monotonic_ns() < nodes->quiet_until_ns)
    return;
  look(nodes, writer);
  nodes->in_vain = modules_have(&nodes->modules, instruction) ? 0 : nodes->in_vain + (nodes->in_vain < IN_VAIN_MAX);
  nodes->quiet_until_ns = nodes->in_vain ? os_monotonic_ns() + (uint64_t)nodes->in_vain * LOOK_AGAIN_NS : 0;
}

/* Writes the nodes from an ancestor that the trace has down to this one, in that order. */
static uint32_t write_nodes(struct stack_nodes *nodes, struct trace_writer *writer, uint32_t node) {
  uint32_t path[2 * STACK_DEPTH_MAX + 2], count = 0, written = 0;
  for (uint32_t at = node; at && !(written = nodes->node_of.at[at - 1]);) {
    /* Read once: the host may change it. */
    uint32_t parent = *(const volatile uint32_t *)&nodes->area->nodes[at - 1].parent;
    if (count == sizeof path / sizeof *path || parent >= at)
      return 0;
    path[count++] = at;
    look_if_needed(nodes, writer, nodes->area->nodes[at - 1].instruction);
    at = parent;
  }
  while (count > 0) {
    uint32_t at = path[--count];
    written = trace_writer_stack_node(writer, written, nodes->area->nodes[at - 1].instruction);
    nodes->node_of.at[at - 1] = written;
    if (!written)
      return 0;
  }
  return written;
}

uint32_t stack_nodes_take(struct stack_nodes *nodes, struct trace_writer *writer, uint32_t node) {
  if (!nodes->area || node == 0 || node > STACK_NODES_MAX ||
      node > atomic_load_explicit(&nodes->area->used, memory_order_acquire))
    return 0;
  if (nodes->generation != atomic_load_explicit(&nodes->area->generation, memory_order_relaxed))
    look(nodes, writer);
  if (!vector_reach(&nodes->node_of, node - 1))
    return 0;
  HT_ASSERT(node <= nodes->node_of.room);
  uint32_t written = nodes->node_of.at[node - 1];
  return written ? written : write_nodes(nodes, writer, node);
}

void stack_nodes_renew(struct stack_nodes *nodes, struct trace_writer *writer) {
  forget_nodes(nodes);
  modules_visit_mapped(&nodes->modules, write_module, writer);
}

uint32_t stack_nodes_frames(const struct stack_nodes *nodes, uint32_t node, uint64_t *frames, uint32_t most) {
  uint32_t count = 0;
  uint32_t used = nodes->area ? atomic_load_explicit(&nodes->area->used, memory_order_acquire) : 0;
  while (node && node <= used && node <= STACK_NODES_MAX && count < most) {
    /* Read once: the host may change it. */
    uint32_t parent = *(const volatile uint32_t *)&nodes->area->nodes[node - 1].parent;
    frames[count++] = nodes->area->nodes[node - 1].instruction;
    if (parent >= node)
      break;
    node = parent;
  }
  return count;
}

uint32_t stack_nodes_requested(const struct stack_nodes *nodes) {
  return nodes->area ? atomic_load(&nodes->area->requested) : 0;
}

void stack_nodes_answer(struct stack_nodes *nodes, uint32_t requested) {
  if (!nodes->area || atomic_load(&nodes->area->answered) == requested)
    return;
  atomic_store(&nodes->area->answered, requested);
  os_futex_wake((const uint32_t *)&nodes->area->answered, INT32_MAX, true);
}

uint32_t stack_nodes_lost(const struct stack_nodes *nodes) {
  return nodes->area ? atomic_load(&nodes->area->lost) : 0;
}

void stack_nodes_close(struct stack_nodes *nodes) {
  if (nodes->area)
    munmap(nodes->area, sizeof *nodes->area);
  free(nodes->node_of.at);
  modules_free(&nodes->modules);
  *nodes = (struct stack_nodes){0};
}
