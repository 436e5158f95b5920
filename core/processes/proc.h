/* SPDX-License-Identifier: MIT */
/* Files of /proc/PID: opened by name, read whole, and the numbers in `status`.

   Not its job: what the figures mean. Nothing here allocates with malloc or keeps state; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens /proc/PID/NAME for reading, close-on-exec; -1: it can't be opened. The caller closes it. */
int proc_open(int pid, const char *name);

/* Reads an open file from its start: at most bytes - 1 bytes, then a zero. False: nothing could be read (fd may be -1).
 */
bool proc_read(int fd, char *text, size_t bytes);

/* The same, but opens and closes the file. */
bool proc_read_file(int pid, const char *name, char *text, size_t bytes);

/* Returns the number in a line of `status`. key: the line's start with the newline before it ("\nVmHWM:"). missing:
   returned where there is no such line. Sizes there are in KiB. */
uint64_t proc_status_number(const char *text, const char *key, uint64_t missing);
