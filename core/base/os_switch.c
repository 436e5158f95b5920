/* SPDX-License-Identifier: MIT */
#include "core/base/os_switch.h"

#include <stddef.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* glibc 2.35; what runs here may be older than what compiled it. */
#pragma weak __rseq_size
#pragma weak __rseq_offset

/* The kernel reads the signature in front of the abort address, even where it does not abort. */
static const struct { uint32_t signature, address; } never_run = {RSEQ_SIG, 0};

static struct rseq_cs sequence __attribute__((aligned(32)));

volatile uint64_t *os_switch_word(void) {
  if (!&__rseq_size || __rseq_size == 0)
    return NULL; /* not registered with the kernel */
  struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
  return (volatile uint64_t *)(void *)&area->rseq_cs;
}

uint64_t os_switch_armed(void) {
  sequence.start_ip = (uint64_t)(uintptr_t)&never_run;
  sequence.post_commit_offset = 1;
  sequence.abort_ip = (uint64_t)(uintptr_t)&never_run.address;
  return (uint64_t)(uintptr_t)&sequence;
}

#else

volatile uint64_t *os_switch_word(void) {
  return NULL;
}

uint64_t os_switch_armed(void) {
  return 0;
}

#endif
