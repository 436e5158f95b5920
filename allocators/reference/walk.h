/* SPDX-License-Identifier: MIT */
/* The states of a chunk, as the heap walk tells them (common/allocator.h).

   Chunks cover their heap without gaps but for its header and the fence at the end of a full one. A block of the walk
   is what is a chunk's alone, from its head to the next one's. Objects with a mapping of their own belong to no arena
   and are not visited. */
#pragma once

enum walk_state {
  WALK_USED,
  WALK_TCACHE, /* free in some thread's cache, used to everybody else */
  WALK_FAST,
  WALK_REMAINDER, /* what the last small request left of a chunk */
  WALK_SMALL,
  WALK_LARGE,
  WALK_TOP, /* the end of the arena's newest heap */
  WALK_STATES
};
