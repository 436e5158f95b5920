/* SPDX-License-Identifier: MIT */
/* Finds Valgrind and our tool for it (observe/valgrind).

   Job: where both are, and whether they fit: the tool is linked against one version of Valgrind's core, and needs the
   files of that version. Not its job: starting the program, reading results. Not reentrant with respect to the
   environment; no other limits on threads. */
#pragma once

#include <stddef.h>

struct valgrind {
  char program[4096]; /* what to execute: Valgrind's launcher itself, not a shell script around it */
  char library[4096]; /* VALGRIND_LIB for our tool; empty: the tool is not there, or does not fit */
};

/* Finds Valgrind in PATH. Returns 0, or -1 with a line about it in why: there is none. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes);

/* The same, and our tool, in valgrind/ beside this program; a launcher of Valgrind's that lies there is taken instead
   of that in PATH. Returns 0, or -1 with a line in why: Valgrind is missing, the tool was not built, or it was built
   for another version. Runs `valgrind --version`. */
int valgrind_find_tool(struct valgrind *valgrind, char *why, size_t why_bytes);
