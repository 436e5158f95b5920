/* SPDX-License-Identifier: MIT */
#include "replay/accesses/other_memory.h"

#include "core/base/os.h"
#include "core/trace/access_stream.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum {
  MIB_SHIFT = 20,
  GRANULES_SHIFT = MIB_SHIFT - ACCESS_GRANULE_SHIFT, /* of a MiB */
  OS_PAGE_BYTES = 4096,
  OS_PAGES = 1 << MIB_SHIFT >> 12, /* of a MiB */
  PLACES = 1 << 15,
  ENTRIES = 2 * PLACES,
};

/* A MiB of the recording that has a place. Hashed by its number, with open addressing. */
struct entry {
  uint64_t mib; /* plus 1; 0: empty */
  uint32_t place;
};

static uint8_t *memory;
static struct entry *entries;
static uint8_t (*resident)[OS_PAGES / 8]; /* by place: a bit for each OS page */
static uint32_t places_given;

void *other_memory_setup(void) {
  const size_t mib = (size_t)1 << MIB_SHIFT;
  uint8_t *reserved =
      mmap(NULL, (PLACES + 1) * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  entries = os_map(ENTRIES * sizeof *entries, true);
  resident = os_map(PLACES * sizeof *resident, true);
  if (reserved == MAP_FAILED || !entries || !resident)
    return NULL;
  memory = (uint8_t *)(((uintptr_t)reserved + mib - 1) & ~(uintptr_t)(mib - 1));
  madvise(memory, PLACES * mib, MADV_NOHUGEPAGE);
  return memory;
}

static struct entry *find(uint64_t mib) {
  uint64_t at = mib * 0x9e3779b97f4a7c15u >> 48;
  while (entries[at % ENTRIES].mib != 0 && entries[at % ENTRIES].mib != mib + 1)
    at++;
  return &entries[at % ENTRIES];
}

/* Returns PLACES if there is no room. */
static uint32_t place_of(uint64_t mib) {
  static uint64_t last_mib = UINT64_MAX;
  static uint32_t last_place;
  if (mib == last_mib)
    return last_place;
  struct entry *entry = find(mib);
  if (entry->mib == 0) {
    if (places_given == PLACES)
      return PLACES;
    *entry = (struct entry){mib + 1, places_given++};
  }
  last_mib = mib;
  return last_place = entry->place;
}

static void make_resident(uint32_t place, uint32_t os_page) {
  uint8_t *bits = &resident[place][os_page / 8], bit = (uint8_t)(1u << os_page % 8);
  if (*bits & bit)
    return;
  *bits |= bit;
  memset(memory + ((size_t)place << MIB_SHIFT) + (size_t)os_page * OS_PAGE_BYTES, 1, OS_PAGE_BYTES);
}

int32_t other_memory_granule(uint64_t recorded_granule) {
  uint32_t place = place_of(recorded_granule >> GRANULES_SHIFT);
  if (place == PLACES)
    return -1;
  uint32_t in_mib = (uint32_t)recorded_granule & ((1u << GRANULES_SHIFT) - 1);
  make_resident(place, in_mib >> (GRANULES_SHIFT - 8));
  return (int32_t)(place << GRANULES_SHIFT | in_mib);
}
