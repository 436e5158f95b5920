/* SPDX-License-Identifier: MIT */
/* The error in Valgrind's log about a program that it can't run.

   Any thread; only stdio allocates with malloc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Finds the first line of the log at path that is Valgrind's own, and copies its message to line. False, and line
   empty: there is none. */
bool valgrind_complaint(const char *path, char *line, size_t bytes);
