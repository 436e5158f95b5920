/* SPDX-License-Identifier: MIT */
/* The allocator that is linked into the executable of a process that runs: its functions are redirected at their
   entries, and put back.

   Not its job: how one is redirected (entry_patch.h), to which hooks (redirect.h). Invariants: all functions of an
   allocator or none. What is needed to put them back stands in the process itself (struct linked_room), before anything
   is redirected, so that any recorder can do it, at any time. That room stays for good, unchanged but for where the
   stubs lead, as a thread may be in a trampoline, or come back to one from a signal handler: the functions can be put
   back wherever threads are, and the next recording uses the same room. Allocates with malloc. */
#pragma once

#include "capture/recorder/redirect/entries/linked_patches.h"
#include "capture/recorder/redirect/objects.h"
#include "capture/recorder/redirect/references.h"

struct linked_running {
  struct linked_patches patches; /* count 0: the executable has no allocator, and there is nothing to do */
  uint64_t room;                 /* where it is, or is to be */
};

/* Looks at the process; changes nothing. known_room: where one is from an earlier recording; 0: perhaps nowhere. -1: an
   allocator's functions can't be redirected. Its patches are to be closed in any case. */
int linked_running_open(struct linked_running *linked, const struct tracee *tracee, uint64_t known_room,
                        struct error *error);

/* Are malloc and its kin themselves among the functions, so that references to them need not be redirected? */
bool linked_running_has_malloc(const struct linked_running *linked);

/* What is redirected. */
struct linked_done linked_running_done(const struct linked_running *linked);

#define LINKED_THREAD_IN_THE_WAY                                                                                       \
  "a thread stands at the first instructions of an allocator's function, and can't be moved (in a signal handler?)"

/* While the threads are held: redirects all functions to the hook, or those that are redirected already to this one.
 * *again: a thread is where it can't be moved from now, and nothing is redirected. */
struct linked_orders {
  uint64_t hook;
  const char *setting;          /* of the recorder */
  uint64_t syscall_instruction; /* in the process */
};
int linked_running_redirect(struct linked_running *linked, struct tracee *tracee, const struct linked_orders *orders,
                            bool *again, struct error *error);

/* Do the functions' code and the stack of a thread at an entry of the gate tell that an allocator's function has called
   another? */
bool linked_running_calls_itself(const struct linked_running *linked, const struct tracee *tracee, uint64_t stack);

/* While the threads are held: puts all functions back, where a recorder with that setting has redirected them. -1: some
   can't be written. */
int linked_put_back(const struct tracee *tracee, uint64_t room, const char *setting, struct error *error);

/* The same in all other processes than `except` that have such a room: fork children. They are held for it. */
int linked_put_back_copies(int except, uint64_t room, const char *setting, struct error *error);

/* The room to which functions of that process's executable are redirected; 0: none are. */
uint64_t linked_find_room(const struct tracee *tracee);
