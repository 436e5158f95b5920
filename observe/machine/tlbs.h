/* SPDX-License-Identifier: MIT */
/* The processor's TLBs for data and OS pages of 4 KiB, as CPUID reports them.

   Job: reads AMD's leaves 0x80000005 and 6, and Intel's leaf 0x18. On other processors no sizes are known. */
#pragma once

#include <stdint.h>

enum { TLBS_MAX = 2 };

struct tlb_size {
  uint32_t entries, ways;
};

/* Fills in the first level, and the second if there is one. Returns how many are known. */
unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]);
