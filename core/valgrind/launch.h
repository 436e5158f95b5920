/* SPDX-License-Identifier: MIT */
/* Finds our Valgrind tool (observe/valgrind) and the launcher of the Valgrind that it is linked with.

   Job: where both are. `make` and every package put them into valgrind/ beside heaptape's programs, with the files that
   the tool needs: neither depends on the Valgrind of the system, which may be missing or of another version. Not its
   job: starting the program, reading results. Any thread. */
#pragma once

#include <stddef.h>

struct valgrind {
  char program[4096]; /* what to execute: Valgrind's launcher itself. Not a shell script around it, as Debian's is: a
                         shell must not run with the allocator under test preloaded */
  char library[4096]; /* VALGRIND_LIB: the folder of the tool */
};

/* Returns 0, or -1 with a line in why: the tool was not built, or is not for this processor. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes);
