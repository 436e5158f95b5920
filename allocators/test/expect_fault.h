/* SPDX-License-Identifier: MIT */
/* For programs that corrupt their heap in many ways, each in a process of its own: checks that each was detected.

   A test's main is `return expect_faults(argument_count, arguments, cases)`. */
#pragma once

#include "allocators/common/entry.h"

#include <stdint.h>

/* corrupt runs under the tunables; `line` is contained in the one line on stderr before abort(). */
struct fault_case {
  const char *name, *tunables;
  void (*corrupt)(void);
  const char *line;
};

/* The case of the function `corrupt`, under its name. */
#define FAULT(corrupt, tunables, line)                                                                                 \
  { #corrupt, tunables, corrupt, line }

/* The misuse that each of our allocators detects; the name NULL ends it, as it does every table of cases. */
extern const struct fault_case cases_of_any_heap[];

/* Runs corrupt() of each case, and of cases_of_any_heap, in a new process. Returns 0 if abort() ended each as it
   should. Otherwise prints what happened instead, and returns 1. argument_count, arguments: main's. */
int expect_faults(int argument_count, char **arguments, const struct fault_case *cases);

/* Returns an object of object_bytes, opaque to the compiler, followed by an object that separates it from the top. */
void *object_before_another(size_t object_bytes);
