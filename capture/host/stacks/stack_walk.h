/* SPDX-License-Identifier: MIT */
/* One step of a stack walk: from a frame to its caller's, by unwind rules, by frame pointers, or by frame pointers
   where there is no rule.

   Invariants: reads only below the given bound. Rules are kept in a table that all threads of the process share without
   locks. */
#pragma once

#include "capture/wire/stack_area.h"

#include <stdbool.h>

struct frame {
  uintptr_t instruction; /* where the frame continues: a return address, or, if exact, an interrupted instruction */
  uintptr_t sp, bp;      /* stack and frame pointer there */
};

enum walk { WALK_END, WALK_ON, WALK_SIGNAL /* on, but past an interruption: the frame's instruction is exact */ };

/* Addresses of the stack that may be read. */
struct stack_bounds {
  uintptr_t low, high;
};

/* Turns the frame into its caller's. exact: frame->instruction is an instruction itself, not a return address. */
enum walk stack_step(struct stack_area *area, enum stack_unwind unwind, struct frame *frame, bool exact,
                     uintptr_t high);

/* The mapping in which sp is, from /proc/self/maps; false: it cannot be read. Costs 10 to 100 us. */
bool stack_find_bounds(uintptr_t sp, struct stack_bounds *bounds);
