/* SPDX-License-Identifier: MIT */
/* For programs that corrupt their heap, each in one way: was it detected?

   A test's main is `return expect_fault(arguments, tunables, corrupt, line)`. */
#pragma once

#include "allocators/common/entry.h"

#include <stdint.h>

/* Runs corrupt() in a process of its own under these tunables. 0: it was ended by abort() after one line on stderr,
   which contains `line`. Otherwise says what happened instead, and returns 1. arguments: main's. */
int expect_fault(char **arguments, const char *tunables, void (*corrupt)(void), const char *line);

/* An object of that many bytes that the compiler knows nothing of, followed by one that keeps it from the top. */
void *object_before_another(size_t object_bytes);
