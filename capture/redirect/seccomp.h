/* SPDX-License-Identifier: MIT */
/* Filters of system calls (seccomp) of a process: do they permit what --attach does in it?

   Not its job: other reasons against attaching (redirect.h). Invariants: a call counts as permitted only if every
   filter of every thread permits it, whatever the arguments are that are not known before. Only reads. Allocates with
   malloc. */
#pragma once

#include "capture/redirect/tracee.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

struct seccomp_call {
  enum { SECCOMP_NEEDED, SECCOMP_OPTIONAL, SECCOMP_ELSEWHERE } need;
  uint32_t number;
  const char *words;
  struct seccomp_argument {
    uint8_t number; /* from 1; 0: none */
    uint64_t value;
  } known[3]; /* the others may have any value */
};

/* What a filter returns for the call: SECCOMP_RET_..., the most restrictive where unknown arguments decide; killing
   where that can't be found. */
uint32_t seccomp_evaluate(const struct sock_fprog *filter, const struct seccomp_call *call);

/* Holds the process for a moment. elsewhere: has it other files than we? -1: a call is forbidden, or the filters can't
   be read. */
int seccomp_check(struct tracee *tracee, bool elsewhere, struct error *error);
