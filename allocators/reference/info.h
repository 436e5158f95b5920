/* SPDX-License-Identifier: MIT */
/* The states of a chunk in the heap walk (common/allocator.h).

   Chunks cover their heap without gaps, except its header and the fence at the end of a full heap. A block of the walk
   is what only that chunk has, from its head to the next chunk's head. Objects with their own mapping belong to no
   arena and are not visited. */
#pragma once

enum walk_state {
  WALK_USED,
  WALK_TCACHE, /* free in some thread's cache, used for everything else */
  WALK_FAST,
  WALK_REMAINDER, /* what the last small request left of a chunk */
  WALK_SMALL,
  WALK_LARGE,
  WALK_TOP, /* the end of the arena's newest heap */
  WALK_STATES
};
