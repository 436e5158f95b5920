/* SPDX-License-Identifier: MIT */
/* The tree of call stacks, interned: a node is a frame (instruction) below its parent, and the same pair is one node.

   Job: numbers for pairs. Not its job: files, unwinding. Nodes are numbered from 1 in order of their making and are
   never taken back; memory is 32 bytes or so per node. Not thread-safe. Allocates with malloc. */
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
  uint32_t used; /* slots in use: those since the last stack_table_forget */
  uint32_t nodes;
};

/* The node's number; *fresh tells whether it was made now. 0: no memory, parent is no node, or there are
   TRACE_MAX_STACK_NODES. */
uint32_t stack_table_node(struct stack_table *table, uint32_t parent, uint64_t instruction, bool *fresh);

/* Pairs seen before get new numbers from here on. */
void stack_table_forget(struct stack_table *table);

void stack_table_free(struct stack_table *table);
