/* SPDX-License-Identifier: MIT */
/* Filters of system calls (seccomp) of a process: do they permit what --attach does in it?

   Not its job: other reasons against attaching (redirect.h). Invariants: a call counts as permitted only if every
   filter of every thread permits it, whatever the arguments are that are not known before. Only reads. Allocates with
   malloc. */
#pragma once

#include "capture/attach/tracee/tracee.h"
#include "core/system/seccomp_filter.h"

/* Holds the process for a moment. elsewhere: has it other files than we? -1: a call is forbidden, or the filters can't
   be read. */
int seccomp_check(struct tracee *tracee, bool elsewhere, struct error *error);
