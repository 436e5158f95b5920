/* SPDX-License-Identifier: MIT */
/* For programs that corrupt their heap, each in one way: checks that it was detected.

   A test's main is `return expect_fault(arguments, tunables, corrupt, line)`. */
#pragma once

#include "allocators/common/entry.h"

#include <stdint.h>

/* Runs corrupt() in a new process under these tunables. Returns 0 if abort() ended it after one line on stderr that
   contains `line`. Otherwise prints what happened instead, and returns 1. arguments: main's. */
int expect_fault(char **arguments, const char *tunables, void (*corrupt)(void), const char *line);

/* Returns an object of object_bytes, opaque to the compiler, followed by an object that separates it from the top. */
void *object_before_another(size_t object_bytes);
