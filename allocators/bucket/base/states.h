/* SPDX-License-Identifier: MIT */
/* The states of blocks in the heap walk and in malloc_info. */
#ifndef ALLOCATORS_BUCKET_BASE_STATES_H
#define ALLOCATORS_BUCKET_BASE_STATES_H

enum state {
  STATE_USED,
  STATE_CACHED,   /* free, in a cache */
  STATE_UNUSED,   /* of a cache, never handed out so far */
  STATE_OVERSIZE, /* free, in the tree of oversize blocks */
  STATES
};

#endif
