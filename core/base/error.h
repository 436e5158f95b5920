/* SPDX-License-Identifier: MIT */
/* One error message, with its place. Libraries fill it in and return -1; only a main prints it.

   Form of the text: "FILE: offset N: what is wrong" or "FILE: what is wrong". The first error wins: filling it in twice
   keeps the first. Not thread-safe; one per caller. */
#pragma once

#include <stdint.h>

struct error {
  char text[512]; /* empty: no error */
};

/* Sets "PATH: offset OFFSET: MESSAGE" and returns -1. */
__attribute__((format(printf, 4, 5))) int error_at(struct error *error, const char *path, uint64_t offset,
                                                   const char *format, ...);

/* Sets "PATH: MESSAGE" and returns -1. */
__attribute__((format(printf, 3, 4))) int error_set(struct error *error, const char *path, const char *format, ...);

/* Sets "PATH: MESSAGE: strerror(errno)" and returns -1. */
int error_errno(struct error *error, const char *path, const char *what);
