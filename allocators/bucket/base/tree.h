/* SPDX-License-Identifier: MIT */
/* The free oversize blocks, ordered by size and then by address: a treap (Seidel and Aragon), so that its depth is
   logarithmic on average whatever the order of frees. libmtmalloc has a list instead, which is searched from the
   smallest on, under the same lock.

   The nodes are in the blocks' memory, which a program may write to by mistake: each is sealed, and checked at each
   use. All under the lock of the oversize blocks. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tree_node {
  size_t bytes;
  struct tree_node *left, *right;
  uintptr_t seal;
};

/* node->bytes must be set. */
void tree_insert(struct tree_node *node);

/* The node must be in the tree; else it, or a node above it, was overwritten, which ends the process. */
void tree_remove(struct tree_node *node);

/* Returns the smallest node of at least `bytes`, of equal ones that at the lowest address. NULL: none. */
struct tree_node *tree_best_fit(size_t bytes);
