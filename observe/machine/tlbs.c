/* SPDX-License-Identifier: MIT */
#include "observe/machine/tlbs.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* The first four letters of the maker, as CPUID has them. */
enum { AMD = 0x68747541, HYGON = 0x6f677948 };
enum { AMD_FIRST = 0x80000005u, AMD_SECOND = 0x80000006u, INTEL = 0x18 };

/* AMD's codes of associativity in leaf 0x80000006; 0: unknown code. */
static uint32_t amd_ways(uint32_t code, uint32_t entries) {
  static const uint32_t ways[16] = {[1] = 1,  [2] = 2,   [3] = 3,   [4] = 4,   [5] = 6,   [6] = 8,
                                    [8] = 16, [10] = 32, [11] = 48, [12] = 64, [13] = 96, [14] = 128};
  return code == 15 ? entries : ways[code];
}

static unsigned read_amd(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(AMD_FIRST, &a, &b, &c, &d))
    return 0;
  uint32_t entries = b >> 16 & 0xff, ways = b >> 24;
  if (entries == 0 || ways == 0)
    return 0;
  sizes[0] = (struct tlb_size){entries, ways == 0xff ? entries : ways};
  if (!__get_cpuid(AMD_SECOND, &a, &b, &c, &d))
    return 1;
  entries = b >> 16 & 0xfff;
  ways = amd_ways(b >> 28, entries);
  if (entries == 0 || ways == 0)
    return 1;
  sizes[1] = (struct tlb_size){entries, ways};
  return 2;
}

/* Reads for each level the TLB for data (type 1) or for both (3) that has 4 KiB pages; in the first level the one for
   loads (4), where it has a separate one for stores. */
static unsigned read_intel(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t last, b, c, d;
  if (!__get_cpuid_count(INTEL, 0, &last, &b, &c, &d))
    return 0;
  struct tlb_size found[TLBS_MAX] = {{0}};
  for (uint32_t leaf = 0; leaf <= last && leaf < 64; leaf++) {
    uint32_t a, type, level;
    if (!__get_cpuid_count(INTEL, leaf, &a, &b, &c, &d))
      break;
    type = d & 31;
    level = d >> 5 & 7;
    if ((b & 1) && (type == 1 || type == 3 || type == 4) && level >= 1 && level <= TLBS_MAX) {
      uint32_t ways = b >> 16, entries = ways * c;
      if (entries > found[level - 1].entries)
        found[level - 1] = (struct tlb_size){entries, ways};
    }
  }
  unsigned count = 0;
  while (count < TLBS_MAX && found[count].entries > 0) {
    sizes[count] = found[count];
    count++;
  }
  return count;
}

unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]) {
  uint32_t a, b, c, d;
  if (!__get_cpuid(0, &a, &b, &c, &d))
    return 0;
  return b == AMD || b == HYGON ? read_amd(sizes) : read_intel(sizes);
}
#else
unsigned tlbs_read(struct tlb_size sizes[TLBS_MAX]) {
  (void)sizes;
  return 0;
}
#endif
