/* SPDX-License-Identifier: MIT */
/* Can a process that runs be recorded? Looks at it from outside, before anything of it is touched.

   Not its job: what only shows in its memory (redirect.h refuses that). Allocates nothing. */
#pragma once

#include "core/base/error.h"

/* 0, or -1 with the reason. */
int target_check(int pid, struct error *error);
