/* SPDX-License-Identifier: MIT */
/* For tests of what an allocator counts: one counter, and a run of the test itself under other tunables. */
#pragma once

#include <stdint.h>

/* Returns the counter of that name; ends the test if there is none. The tunable stats must be on. */
uint64_t counted(const char *name);

/* Runs this program again in a new process, under these tunables, with one argument. Returns 0 if it exited with 0;
   else prints the tunables under which it did not, and returns 1. arguments: main's. */
int run_under(char **arguments, const char *tunables, const char *argument);
