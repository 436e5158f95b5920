/* SPDX-License-Identifier: MIT */
/* The program's own calls that set filters of system calls, or forbid the clock.

   Not its job: what filters permit (filters.h). Keeps errno, allocates nothing, async-signal-safe. */
#pragma once

#include <stdbool.h>

/* May the process no longer read the cycle counter? */
bool filter_calls_forbid_clock(void);
