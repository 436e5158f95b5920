/* SPDX-License-Identifier: MIT */
/* What a filter of system calls (seccomp) does with a call of which not all arguments are known before.

   Pure: calls nothing, so that it may run inside any host. Needs up to 16 KiB of stack, where a filter branches on many
   unknown arguments. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

struct seccomp_call {
  enum { SECCOMP_NEEDED, SECCOMP_OPTIONAL, SECCOMP_ELSEWHERE, SECCOMP_STARTED } need;
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

/* The one of two actions that the kernel takes. */
uint32_t seccomp_more_restrictive(uint32_t one, uint32_t other);

/* May the call be made where that is what filters return? */
bool seccomp_permits(uint32_t action, const struct seccomp_call *call);
