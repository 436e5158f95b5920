/* SPDX-License-Identifier: MIT */
/* Oversize blocks: blocks for requests above max_cached, all under one lock.

   Memory is mapped in segments and divided into blocks with boundary tags; a free block is merged with its free
   neighbours and found again by size. A segment that the kernel happens to place directly before the newest
   one is joined with it. Memory is given back to the system only by a purge, as in libmtmalloc.

        block ->  | tagged_bytes  size of this block, and flags
                  | before_bytes  size of the block before it; 0: the first of its segment
                  | tag_seal      of these two
                  | owner, seal   struct block (block.h)
       object ->  | the program's bytes; or while free: a node of the tree */
#pragma once

#include "allocators/bucket/block.h"
#include "allocators/bucket/buckets.h"

#include <stddef.h>
#include <stdint.h>

struct oversize {
  size_t tagged_bytes; /* a multiple of 64, and flags */
  size_t before_bytes;
  uintptr_t tag_seal;
  _Alignas(OBJECT_ALIGNMENT) struct block block;
};

enum {
  OVERSIZE_LAST = 1,  /* of its segment */
  OVERSIZE_CLEAN = 2, /* its object has never been written to since it was mapped: it is all zero */
  OVERSIZE_FLAGS = 63,
};

static inline size_t oversize_bytes(const struct oversize *oversize) {
  return oversize->tagged_bytes & ~(size_t)OVERSIZE_FLAGS;
}

/* Returns the usable bytes. */
static inline size_t oversize_object_bytes(const struct oversize *oversize) {
  return oversize_bytes(oversize) - sizeof(struct oversize);
}

/* Returns a used block for an object of object_bytes, at most PTRDIFF_MAX. NULL: no memory. */
struct oversize *oversize_take(size_t object_bytes);

/* Frees a used block. Faults are reported under the name `where`. */
void oversize_release(const char *where, struct oversize *oversize);

/* Makes the block large enough in place, with the free block behind it, and cuts off the excess. Returns whether it is
   large enough. */
bool oversize_resize(struct oversize *oversize, size_t object_bytes);

/* Gives back the OS pages in free blocks. Returns whether there were any. */
bool oversize_purge(void);

/* Calls visit for each block, under the lock. */
void oversize_walk(cache_visit *visit, void *context);

/* Call around a fork. */
void oversize_lock(void);
void oversize_unlock(void);

/* The free oversize blocks, ordered by size and then by address: a treap (Seidel and Aragon), so that its depth is
   logarithmic on average whatever the order of frees. libmtmalloc has a list instead, which is searched from the
   smallest on, under the same lock.

   The nodes are in the blocks' memory, which a program may write to by mistake: each is sealed, and checked at each
   use. All under the lock of the oversize blocks. */

struct tree_node {
  size_t bytes;
  struct tree_node *left, *right;
  uintptr_t seal;
};
