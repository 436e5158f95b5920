/* SPDX-License-Identifier: MIT */
/* One error message, with its place. Libraries fill it in and return -1; only a main prints it.

   Form of the text: "FILE: offset N: what is wrong" or "FILE: what is wrong", with control characters escaped. The
   first error wins: filling it in twice keeps the first. Not thread-safe; one per caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct error {
  char text[512];   /* empty: no error */
  uint64_t place;   /* OFFSET + 1; 0: the error has no place */
  uint64_t message; /* where MESSAGE begins in text */
};

/* Sets "PATH: offset OFFSET: MESSAGE" and returns -1. */
__attribute__((format(printf, 4, 5))) int error_at(struct error *error, const char *path, uint64_t offset,
                                                   const char *format, ...);

/* Sets "PATH: MESSAGE" and returns -1. */
__attribute__((format(printf, 3, 4))) int error_set(struct error *error, const char *path, const char *format, ...);

/* Sets "PATH: MESSAGE: strerror(errno)" and returns -1. */
int error_errno(struct error *error, const char *path, const char *what);

/* Copies text that may come from a file to where people read it. Control characters, and bytes that are no UTF-8,
   become \n, \r, \t or \xNN, so that no file moves a terminal's cursor or changes its colours. A text that does not fit
   into room bytes is cut off. Returns to. */
const char *escape_controls(char *to, size_t room, const char *text);

/* The same for a text of any length. */
void print_escaped(FILE *out, const char *text);

/* Returns a signal's name without SIG, or NULL: it has none, as those for real time. As sigabbrev_np, which is
 * glibc 2.32's. */
const char *signal_name(int number);
