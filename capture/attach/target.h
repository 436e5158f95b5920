/* SPDX-License-Identifier: MIT */
/* A running process that is to be recorded, as it looks from outside: can it be recorded, and how does it differ from
   us?

   Reads /proc and files; changes nothing. */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>

/* Can a running process be recorded? Looks at it from outside, before anything in it is touched, and holds
   it only to read filters of system calls; reasons that only its memory shows are refused later. 0, or -1 with the
   reason.
   */
int target_check(int pid, struct error *error);

/* The part of it that a process could make untrue later, by executing a setuid program: is it plainly one user's, and
   may this recorder trace it? Asked again once its memory is open, which is then that of the program asked about. */
int target_check_owner(int pid, struct error *error);

/* Do paths mean other files in the process than here? */
bool target_has_other_files(int pid);

/* A Unix socket for SEQPACKET in the process's network namespace, non-blocking. -1: it can't be made. */
int target_socket(int pid);
