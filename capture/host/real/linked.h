/* SPDX-License-Identifier: MIT */
/* Functions of an allocator that is linked into the executable: the hook to which the collector redirects them.

   Job: the table and the memory near the executable that the collector fills in, and the hook of such functions, which
   knows by their entry of the table what their parameters mean. Not its job: finding the functions and redirecting them
   (capture/recorder/redirect/). Invariants: without such an allocator nothing stays mapped. The memory is never
   writable here. A fork child has its parent's. Called with the process locked. Keeps nothing open; may change errno.
 */
#pragma once

#include "capture/wire/linked.h"

/* Maps the memory, once per image. place->room is 0 where none is to be had. */
void linked_offer(struct linked_place *place);

/* After the collector's answer. Where no functions are redirected the memory is given back. */
void linked_take(const struct linked_place *place, const struct linked_done *done);

/* The hook, in linked_hooks.c: jumped to from a function's entry, by a stub that has pushed the address of its struct
   linked_function. Leaves all registers, flags too, as the function would. Async-signal-safe. */
void linked_hook(void);
