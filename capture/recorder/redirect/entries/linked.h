/* SPDX-License-Identifier: MIT */
/* The allocator that is linked into a process's executable: its functions are redirected to the hooks of
   libheaptape.so.

   Job: write hooks' table, trampolines and patches into a process that begins. Not its job: what they are
   (linked_patches.h), processes that run (linked_running.h). Invariants: the process waits in its attaching meanwhile,
   and has one thread; else nothing is written. It may write what it likes at the addresses that it gave: they are its
   own. Allocates with malloc; prints nothing. */
#pragma once

#include "capture/wire/linked.h"

#include <stdbool.h>

struct linked_result {
  struct linked_done done;
  bool has_malloc;     /* those of malloc itself are redirected */
  char complaint[480]; /* what is not recorded and why; empty: nothing is to be said */
};

/* connection: by which the process asked, and which it closes where it no longer waits. */
void linked_redirect(int pid, int connection, const struct linked_place *place, struct linked_result *result);
