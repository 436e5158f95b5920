/* SPDX-License-Identifier: MIT */
/* The allocator that is linked into the executable of a running process: redirects its functions to the hooks of
   libheaptape-attach.so at their entries, and puts them back.

   Not its job: the patches' contents (capture/linked/), to which hooks (redirect.h). Invariants: all functions of an
   allocator or none. What is needed to put the functions back is in the process itself (struct linked_room) before
   anything is redirected, so that any recorder can do it, at any time. That room stays forever, unchanged except for
   where the stubs lead, as a thread may be in a trampoline, or return to one from a signal handler. So the functions
   can be put back wherever threads are, and the next recording uses the same room. Allocates with malloc; prints
   nothing. */
#pragma once

#include "capture/attach/tracee/tracee.h"
#include "capture/linked/linked_patches.h"
#include "core/base/error.h"

#include <stdbool.h>

struct linked_running {
  struct linked_patches patches; /* count 0: the executable has no allocator, and there is nothing to do */
  uint64_t room;                 /* its address, present or planned */
};

/* Looks at the process; changes nothing. known_room: the room of an earlier recording; 0: none is known. -1: an
   allocator's functions can't be redirected. Its patches are to be closed in any case. */
int linked_running_open(struct linked_running *linked, const struct tracee *tracee, uint64_t known_room,
                        struct error *error);

/* Are malloc and the other functions of its API themselves among the functions, so that references to them need not be
   redirected? */
bool linked_running_has_malloc(const struct linked_running *linked);

/* What is redirected. */
struct linked_done linked_running_done(const struct linked_running *linked);

#define LINKED_THREAD_IN_THE_WAY                                                                                       \
  "a thread is at the first instructions of an allocator's function, and can't be moved (in a signal handler?)"

/* While the threads are held: redirects all functions to the hooks; already redirected functions now go to these.
   Sets *again where a thread is at a place from which it can't be moved now; then nothing is redirected. */
struct linked_orders {
  const uint64_t *hook;         /* LINKED_HOOKS */
  const char *setting;          /* of the recorder */
  uint64_t syscall_instruction; /* in the process */
};
int linked_running_redirect(struct linked_running *linked, struct tracee *tracee, const struct linked_orders *orders,
                            bool *again, struct error *error);

/* Do the functions' code and the stack of a thread at an entry of the relay show that an allocator's function has
   called another? */
bool linked_running_calls_itself(const struct linked_running *linked, const struct tracee *tracee, uint64_t stack);

/* While the threads are held: puts all functions back that a recorder with that setting has redirected. -1: some can't
   be written. */
int linked_put_back(const struct tracee *tracee, uint64_t room, const char *setting, struct error *error);

/* The same in all processes except `except` that have such a room: fork children. They are held meanwhile. */
int linked_put_back_copies(int except, uint64_t room, const char *setting, struct error *error);

/* The room to which functions of that process's executable are redirected; 0: none are. */
uint64_t linked_find_room(const struct tracee *tracee);
