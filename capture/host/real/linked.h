/* SPDX-License-Identifier: MIT */
/* Functions of an allocator that is linked into the executable: the hooks to which the collector redirects them.

   Job: the table and the memory near the executable that the collector fills in, and hooks of such functions, which
   know by their entry of the table what their parameters mean. Not its job: finding the functions and redirecting them
   (capture/recorder/redirect/). Invariants: without such an allocator nothing stays mapped. The memory is never
   writable here. A fork child has its parent's. Called with the process locked. Keeps nothing open; may change errno.
 */
#ifndef CAPTURE_HOST_REAL_LINKED_H
#define CAPTURE_HOST_REAL_LINKED_H

#include "capture/wire/linked.h"

/* The addresses of the hooks, by enum linked_kind. */
void linked_describe_hooks(uint64_t hook[LINKED_KINDS]);

/* Maps the memory, once per image. place->room is 0 where none is to be had. */
void linked_offer(struct linked_place *place);

/* After the collector's answer. Where no functions are redirected the memory is given back. */
void linked_take(const struct linked_place *place, const struct linked_done *done);

/* The hooks, by enum linked_kind; in linked_hooks.c. The stubs by which functions are redirected to them add the last
   parameter. Keep errno; async-signal-safe. */
void *linked_acquire(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function);
void *linked_acquire_or_throw(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                              const struct linked_function *function);
void linked_release(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function);
void linked_release_by_operator(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                                const struct linked_function *function);
void *linked_touch(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function);
void *linked_resize(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function);
void *linked_acquire_to_result(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               const struct linked_function *function);
void *linked_drop(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function);

#endif
