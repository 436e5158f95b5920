/* SPDX-License-Identifier: MIT */
/* The states of blocks in the heap walk and in malloc_info. */
#pragma once

enum state {
  STATE_USED,
  STATE_CACHED,   /* free, in a cache */
  STATE_UNUSED,   /* of a cache, never handed out yet */
  STATE_OVERSIZE, /* free, in the tree of oversize blocks */
  STATES
};
