/* SPDX-License-Identifier: MIT */
/* For programs that corrupt their heap in many ways, each in a process of its own: checks that each was detected.

   A test's main is `return expect_faults(argument_count, arguments, cases)`. */
#pragma once

#include "allocators/common/entry.h"

#include <stdint.h>

/* `line` is contained in the one line on stderr before abort(). What is done, under the tunables, is steps, or what
   steps can't say, then corrupt(). Objects have the numbers 0, 1, ... in the order in which they were allocated:

     mBYTES       allocates an object
     gBYTES       allocates an object, and behind it one that separates it from the top, without a number
     fPLACE       frees; PLACE: an object's number, then maybe +BYTES or -BYTES, or u for its usable size, u+BYTES
     rPLACE,N     reallocates to N bytes
     wPLACE,N=V   writes V to N bytes
     aPLACE,N     adds N to the word there, xPLACE,N: exclusive or */
struct fault_case {
  const char *name, *tunables, *steps, *line;
  void (*corrupt)(void);
};

/* The case of the function `corrupt`, under its name. */
#define FAULT(corrupt, tunables, line)                                                                                 \
  { #corrupt, tunables, "", line, corrupt }

/* Runs each case, and the misuse that each of our allocators detects, in a new process. Returns 0 if abort() ended each
   as it should. Otherwise prints what happened instead, and returns 1. argument_count, arguments: main's. */
int expect_faults(int argument_count, char **arguments, const struct fault_case *cases);
