/* SPDX-License-Identifier: MIT */
/* The tree of call stacks, interned: a node is a frame (instruction) below its parent, and the same pair is one node.

   Job: numbers for pairs. Not its job: files, unwinding. Nodes are numbered from 1 in order of their creation and are
   never removed; memory is about 32 bytes per node. Not thread-safe. Allocates with malloc. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stack_slot {
  uint64_t instruction;
  uint32_t parent, node; /* node 0: free */
};

/* All zero is an empty table. */
struct stack_table {
  struct stack_slot *slots;
  uint32_t mask; /* slots less 1 */
  uint32_t used; /* slots used since the last stack_table_forget */
  uint32_t nodes;
};

/* Returns the node's number; *fresh: it was created now. 0: no memory, parent is not a node, or there are
   TRACE_MAX_STACK_NODES. */
uint32_t stack_table_node(struct stack_table *table, uint32_t parent, uint64_t instruction, bool *fresh);

/* Pairs seen before get new numbers from here on. */
void stack_table_forget(struct stack_table *table);

void stack_table_free(struct stack_table *table);
