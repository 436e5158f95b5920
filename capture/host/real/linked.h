/* SPDX-License-Identifier: MIT */
/* Functions of an allocator that is linked into the executable: the hook to which the collector redirects them.

   Job: the table and the memory near the executable that the collector fills in, and the hook of such functions, which
   gets the meaning of their parameters from the function's table entry. Not its job: finding the functions and
   redirecting them (capture/redirect/). Invariants: without such an allocator nothing stays mapped. The memory
   is never writable here. A fork child has its parent's memory. Called with the process locked. Keeps nothing open; may
   change errno. */
#pragma once

#include "capture/wire/linked.h"

/* Maps the memory, once per image. place->room is 0 where there is none. */
void linked_offer(struct linked_place *place);

/* Called after the collector's reply. Where no functions are redirected, unmaps the memory. */
void linked_take(const struct linked_place *place, const struct linked_done *done);

/* The hook, in linked_hooks.c: jumped to from a function's entry, by a stub that has pushed the address of its struct
   linked_function. Leaves all registers, flags too, as the function would. Async-signal-safe. */
void linked_hook(void);
