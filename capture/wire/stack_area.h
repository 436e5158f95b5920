/* SPDX-License-Identifier: MIT */
/* The tree of call stacks that host and collector share: nodes, each stored once, and the tables by which the host
   finds them.

   Layout only. The area is memory of the collector (a sealed memfd) that one host process maps; the host writes, the
   collector reads nodes up to used. Invariants: a node's parent has a lower number; a node is complete before a record
   names it. The host may be broken or hostile: the collector checks every number it reads here. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/* There are 2^21 nodes: 32 MiB, of which only the used part is ever touched; cc1, sqlite3, redis and python3 need
   10,000 to 200,000 nodes at a depth of 32. */
enum {
  STACK_NODES_MAX = 1 << 21,
  STACK_RULES = 1 << 13,
  STACK_INDEX_FIRST_LOG = 13,
  STACK_INDEX_LAST_LOG = 22,
  STACK_DEPTH_DEFAULT = 32,
  STACK_DEPTH_MAX = 256,
};

enum stack_unwind { UNWIND_AUTO = 0, UNWIND_DWARF = 1, UNWIND_FP = 2, UNWIND_LIBUNWIND = 3 };

struct stack_node {
  uint64_t instruction; /* 0: frames outward from here are not known */
  uint32_t parent;      /* 0: none */
  uint32_t unused;
};

/* How to get from a frame to its caller's, for one instruction (stack.h). */
struct stack_rule_entry {
  _Atomic uint64_t instruction; /* 0: none; 1: being written */
  _Atomic uint64_t rule;
};

struct stack_area {
  _Atomic uint32_t used;       /* nodes 1 .. used exist */
  _Atomic uint32_t lost;       /* stacks for which there was no room, or that could not be walked */
  _Atomic uint32_t generation; /* changes when a library has been closed */
  _Atomic uint32_t requested;  /* number of the host's latest request: read what is in the rings now */
  _Atomic uint32_t answered;   /* futex: number of the latest request that the collector has carried out */
  _Atomic uint32_t lock;       /* held while a node is made */
  _Atomic uint32_t index_log;  /* log2 of the present index's entries; each index is behind the one of half its size */
  _Alignas(4096) struct stack_rule_entry rules[STACK_RULES];
  struct stack_node nodes[STACK_NODES_MAX];
  _Atomic uint32_t index[2 << STACK_INDEX_LAST_LOG]; /* node numbers, 0: free */
};

/* The log2 of the present index's entries, within the area whatever the other side has written there. */
static inline uint32_t stack_index_log(const struct stack_area *area) {
  uint32_t log = atomic_load_explicit(&area->index_log, memory_order_acquire);
  return log < STACK_INDEX_FIRST_LOG ? STACK_INDEX_FIRST_LOG : log > STACK_INDEX_LAST_LOG ? STACK_INDEX_LAST_LOG : log;
}
