/* SPDX-License-Identifier: MIT */
/* The states of a block in the heap walk (common/allocator.h). Large objects are not visited: each has its own run of
   zones. */
#pragma once

enum walk_state {
  WALK_USED,     /* by the program, or as a magazine */
  WALK_MAGAZINE, /* free, in a magazine of some thread or of a depot */
  WALK_SLAB,     /* free, in a zone of its class */
  WALK_FRESH,    /* the end of a zone, of which nothing was handed out yet */
  WALK_ZONE,     /* a whole zone, in the zone magazine */
  WALK_RUN,      /* a run of zones that is kept for large objects */
  WALK_STATES
};
