/* SPDX-License-Identifier: MIT */
/* Finds Valgrind and our tool for it (observe/valgrind).

   Job: where both are, and whether their versions match: the tool is linked against one version of Valgrind's core, and
   needs the files of that version. Not its job: starting the program, reading results. Reads the environment; otherwise
   any thread. */
#pragma once

#include <stddef.h>

struct valgrind {
  char program[4096]; /* what to execute: Valgrind's launcher itself, not a shell script around it */
  char library[4096]; /* VALGRIND_LIB for our tool; empty: the tool is not there, or of another version */
};

/* Finds Valgrind in PATH. Returns 0, or -1 with a line in why if there is none. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes);

/* The same, and finds our tool in valgrind/ beside this program; if that folder has a launcher of Valgrind's, it is
   used instead of the one in PATH. Returns 0, or -1 with a line in why: Valgrind is missing, the tool was not built, or
   it was built for another version. Runs `valgrind --version`. */
int valgrind_find_tool(struct valgrind *valgrind, char *why, size_t why_bytes);
