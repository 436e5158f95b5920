/* SPDX-License-Identifier: MIT */
#include "capture/host/large.h"

#include "core/base/assert.h"
#include "core/base/touched.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  READ_PAGES = 512, /* OS pages of one mincore call: a byte each, on a stack that may be a signal handler's */
  SAMPLE_WINDOWS = 16,
  SAMPLE_PAGES = 64, /* of each window */
};

/* Removes one reason from the address's tag entry: its object is not in the table any more. */
static void forget(uintptr_t address) {
  uint16_t reasons = atomic_fetch_sub(&ownership_entry((const void *)address)->uncommon, 1);
  HT_ASSERT(reasons > 0);
  (void)reasons;
}

void large_put(const void *object, uint64_t bytes) {
  uint32_t set = large_set(object);
  struct large_entry *entry = host_state.tables->large[set];
  for (int way = 0; way < LARGE_WAYS; way++)
    if (atomic_load(&entry[way].address) == (uintptr_t)object) {
      atomic_store(&entry[way].bytes, bytes); /* its release was not recorded */
      return;
    }
  ownership_make_uncommon(object);
  for (int way = 0; way < LARGE_WAYS; way++) {
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&entry[way].address, &none, (uintptr_t)object)) {
      atomic_store(&entry[way].bytes, bytes);
      atomic_fetch_add(&host_state.tables->large_use[set], 1);
      return;
    }
  }
  struct large_entry *victim = &entry[(uintptr_t)object / 16 % LARGE_WAYS];
  uintptr_t before = atomic_exchange(&victim->address, (uintptr_t)object);
  if (before)
    forget(before);
  else
    atomic_fetch_add(&host_state.tables->large_use[set], 1);
  atomic_store(&victim->bytes, bytes);
}

uint64_t large_take(const void *object) {
  uint32_t set = large_set(object);
  struct large_entry *entry = host_state.tables->large[set];
  for (int way = 0; way < LARGE_WAYS; way++) {
    uintptr_t address = (uintptr_t)object;
    if (atomic_load(&entry[way].address) != address)
      continue;
    /* Read before the exchange, as a thread that takes the entry over changes its address first. */
    uint64_t bytes = atomic_load(&entry[way].bytes);
    if (!atomic_compare_exchange_strong(&entry[way].address, &address, 0))
      return 0;
    uint8_t used = atomic_fetch_sub(&host_state.tables->large_use[set], 1);
    HT_ASSERT(used > 0);
    (void)used;
    forget(address);
    return bytes;
  }
  return 0;
}

void large_visit(void (*visit)(const void *object, uint64_t bytes)) {
  for (uint32_t set = 0; set < LARGE_SETS; set++) {
    if (atomic_load(&host_state.tables->large_use[set]) == 0)
      continue;
    for (int way = 0; way < LARGE_WAYS; way++) {
      const struct large_entry *entry = &host_state.tables->large[set][way];
      uintptr_t address = atomic_load(&entry->address);
      uint64_t bytes = atomic_load(&entry->bytes);
      if (address && bytes)
        visit((const void *)address, bytes);
    }
  }
}

struct residency {
  uint64_t resident; /* OS pages */
  uint32_t parts;    /* those that have one (core/base/touched.h) */
  bool first, last;  /* is the range's first, last OS page resident? */
};

/* Where an object's parts are in the range that is read: the first one has `first` OS pages, at least one. */
struct part_pages {
  uint64_t first, each;
};

/* An OS page belongs to the part that has its middle. */
static struct part_pages parts_from(uintptr_t begin, uintptr_t from, uint64_t bytes) {
  uint64_t each = (1ull << touched_part_shift(bytes)) / host_state.os_page_bytes;
  uint64_t before = (from - begin + host_state.os_page_bytes / 2) / host_state.os_page_bytes;
  return (struct part_pages){each ? each - before % each : 1, each ? each : 1};
}

/* Counts the resident OS pages among those of `resident`, which are number `done` of the range and the following. */
static void count_some(struct residency *seen, const uint8_t *resident, uint64_t done, uint64_t some,
                       const struct part_pages *pages) {
  for (uint64_t i = 0; i < some;) {
    uint64_t at = done + i, part = at < pages->first ? 0 : 1 + (at - pages->first) / pages->each;
    uint64_t end = pages->first + part * pages->each - done, sum = 0;
    for (end = end < some ? end : some; i < end; i++)
      sum += resident[i] & 1;
    seen->resident += sum;
    seen->parts |= (uint32_t)(sum != 0) << (part < TOUCHED_PARTS ? part : TOUCHED_PARTS - 1);
  }
}

/* Counts the resident OS pages of a range; false: mincore failed. */
static bool read_residency(uintptr_t from, uint64_t count, const struct part_pages *pages, struct residency *seen) {
  uint8_t resident[READ_PAGES];
  *seen = (struct residency){0};
  for (uint64_t done = 0; done < count;) {
    uint64_t some = count - done < READ_PAGES ? count - done : READ_PAGES;
    if (syscall(SYS_mincore, from + done * host_state.os_page_bytes, some * host_state.os_page_bytes, resident) != 0)
      return false;
    count_some(seen, resident, done, some, pages);
    seen->first = done ? seen->first : resident[0] & 1;
    seen->last = resident[some - 1] & 1;
    done += some;
  }
  return true;
}

/* Estimates the resident OS pages from evenly spaced windows. */
static bool sample(uintptr_t from, uint64_t pages, uint64_t *resident) {
  const struct part_pages whole = {SAMPLE_PAGES, SAMPLE_PAGES};
  uint64_t stride = pages / SAMPLE_WINDOWS;
  *resident = 0;
  for (uint64_t window = 0; window < SAMPLE_WINDOWS; window++) {
    struct residency seen;
    if (!read_residency(from + (window * stride + (stride - SAMPLE_PAGES) / 2) * host_state.os_page_bytes, SAMPLE_PAGES,
                        &whole, &seen))
      return false;
    *resident += seen.resident;
  }
  *resident = pages * *resident / (SAMPLE_WINDOWS * SAMPLE_PAGES);
  return true;
}

static bool count_resident(uintptr_t begin, uint64_t bytes, bool quick, uint64_t *os_pages, uint32_t *map) {
  uint64_t page = host_state.os_page_bytes;
  uintptr_t from = (begin + page - 1) & ~(page - 1), to = (begin + bytes) & ~(page - 1);
  *map = 0;
  if (to <= from)
    return false;
  uint64_t pages = (to - from) / page;
  if (quick && pages > SAMPLE_WINDOWS * SAMPLE_PAGES)
    return sample(from, pages, os_pages);
  struct residency seen;
  bool has_parts = bytes >= TOUCHED_PARTS_MIN_BYTES;
  struct part_pages parts = has_parts ? parts_from(begin, from, bytes) : (struct part_pages){pages, pages};
  if (!read_residency(from, pages, &parts, &seen))
    return false;
  uint64_t ends = (seen.first ? from - begin : 0) + (seen.last ? begin + bytes - to : 0);
  *os_pages = seen.resident + (ends + page - 1) / page;
  if (has_parts && seen.parts != touched_prefix(*os_pages * page, touched_part_shift(bytes)))
    *map = seen.parts;
  return true;
}

uint64_t large_touched(const void *object, uint64_t bytes, bool quick) {
  int error = errno;
  uint64_t os_pages;
  uint32_t map;
  if (!host_may(HOST_RESIDENT))
    return LARGE_UNKNOWN;
  bool known = count_resident((uintptr_t)object, bytes, quick, &os_pages, &map);
  errno = error;
  if (!known)
    return LARGE_UNKNOWN;
  return (os_pages < UINT32_MAX - 1 ? os_pages : UINT32_MAX - 1) | (uint64_t)map << 32;
}
