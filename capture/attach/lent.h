/* SPDX-License-Identifier: MIT */
/* A library lent to a process that has other files than the recorder: it opens a copy that is in no file system.

   Not its job: loading it (loading.c). Invariants: the process gets one descriptor, at a high number, as a program may
   count on the lowest free one; it is closed where the process executes another program, and when it is taken back. */
#pragma once

#include "capture/attach/tracee/objects.h"
#include "capture/attach/tracee/tracee.h"

struct lent {
  struct tracee *tracee;
  uint64_t syscall_instruction;
  uint64_t path; /* memory in the process for the path by which it opens the library */
  int fd;        /* in the process; -1: none */
};

/* library: path, here. -1: the process can't be given it. Gives it once until it is taken back. */
int lent_give(struct lent *lent, const char *library, struct error *error);
void lent_take_back(struct lent *lent);
