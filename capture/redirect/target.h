/* SPDX-License-Identifier: MIT */
/* Can a running process be recorded? Looks at it from outside, before anything in it is touched.

   Not its job: reasons that only its memory shows (redirect.h refuses these). Allocates nothing. */
#pragma once

#include "core/base/error.h"

/* 0, or -1 with the reason. */
int target_check(int pid, struct error *error);
