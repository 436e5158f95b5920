/* SPDX-License-Identifier: MIT */
/* The allocator that is linked into a process's executable: its functions are redirected to the hooks of
   libheaptape.so.

   Job: write the hooks' table, trampolines and patches into a process that begins. Not its job: their contents
   (linked_patches.h), running processes (linked_running.h). Invariants: the process waits in its attaching meanwhile,
   and has one thread; else nothing is written. The process may itself write anything at the addresses that it gave: the
   memory is its own. Allocates with malloc; prints nothing. */
#pragma once

#include "capture/wire/linked.h"

#include <stdbool.h>

struct linked_result {
  struct linked_done done;
  bool has_malloc;     /* the functions of malloc itself are redirected */
  char complaint[480]; /* what is not recorded and why; empty: nothing to report */
};

/* connection: the one by which the process asked; the process closes it when it no longer waits. */
void linked_redirect(int pid, int connection, const struct linked_place *place, struct linked_result *result);
