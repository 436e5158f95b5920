/* SPDX-License-Identifier: MIT */
#include "observe/machine/chains.h"

#include "core/base/os.h"
#include "observe/machine/code.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
  PAGE_LINES = CHAINS_OS_PAGE_BYTES / CHAINS_LINE_BYTES,
  /* Without huge pages: this many OS pages are walked in random order before the next ones; the second TLB can hold
     them. With 32, prefetchers fetch some lines. */
  GROUP_LINES = 256 * PAGE_LINES,
};

static long minor_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Maps and touches the memory. The number of faults shows whether it is on huge pages: one for 2 MiB. */
static int map(struct chains *chains, size_t bytes, bool want_huge) {
  size_t whole = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
  char *mapped = mmap(NULL, whole + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED)
    return -1;
  size_t before = -(uintptr_t)mapped % HUGE_PAGE_BYTES;
  if (before > 0)
    munmap(mapped, before);
  if (before < HUGE_PAGE_BYTES)
    munmap(mapped + before + whole, HUGE_PAGE_BYTES - before);
  chains->memory = mapped + before;
  chains->bytes = whole;
  madvise(chains->memory, whole, want_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  long faults = minor_faults();
  for (size_t at = 0; at < bytes; at += CHAINS_OS_PAGE_BYTES)
    chains->memory[at] = 1;
  chains->huge_pages = want_huge && (size_t)(minor_faults() - faults) <= 2 * whole / HUGE_PAGE_BYTES;
  return 0;
}

static void **node_at(const struct chains *chains, enum chains_layout layout, enum chains_order order,
                      uint32_t number) {
  size_t line = number;
  /* Lines at the same offset in every OS page would all map to a few sets. */
  if (layout == CHAINS_ONE_PER_PAGE)
    line = (size_t)number * PAGE_LINES + number * 29 % 64;
  return (void **)(chains->memory + line * CHAINS_LINE_BYTES) + order;
}

/* Shuffles order[begin] to order[end - 1]. */
static void shuffle(uint32_t *order, size_t begin, size_t end, uint64_t *state) {
  for (size_t index = end - 1; index > begin; index--) {
    size_t other = begin + random_next(state) % (index - begin + 1);
    uint32_t kept = order[index];
    order[index] = order[other];
    order[other] = kept;
  }
}

static void fill_far(uint32_t *order, size_t nodes, size_t group, uint64_t *state) {
  for (size_t index = 0; index < nodes; index++)
    order[index] = (uint32_t)index;
  for (size_t begin = 0; begin < nodes; begin += group)
    shuffle(order, begin, begin + group < nodes ? begin + group : nodes, state);
}

/* Puts OS pages in random order, and in random order the lines of each CHAINS_NEAR_PAGES of them. `pages`: room for the
   order of OS pages. */
static void fill_near(uint32_t *order, uint32_t *pages, size_t nodes, uint64_t *state) {
  size_t page_count = (nodes + PAGE_LINES - 1) / PAGE_LINES, count = 0, begin = 0;
  for (size_t index = 0; index < page_count; index++)
    pages[index] = (uint32_t)index;
  shuffle(pages, 0, page_count, state);
  for (size_t index = 0; index < page_count; index++) {
    size_t line = (size_t)pages[index] * PAGE_LINES, end = line + PAGE_LINES;
    for (; line < end && line < nodes; line++)
      order[count++] = (uint32_t)line;
    if ((index + 1) % CHAINS_NEAR_PAGES == 0 || index + 1 == page_count) {
      shuffle(order, begin, count, state);
      begin = count;
    }
  }
}

static void link_ring(struct chains *chains, enum chains_layout layout, enum chains_order which,
                      const uint32_t *order) {
  size_t nodes = chains->nodes;
  for (size_t index = 0; index < nodes; index++)
    *node_at(chains, layout, which, order[index]) = node_at(chains, layout, which, order[(index + 1) % nodes]);
  for (size_t walker = 0; walker < CHAINS_WALKERS; walker++)
    chains->rings[which].walkers[walker] = node_at(chains, layout, which, order[walker * (nodes / CHAINS_WALKERS)]);
}

int chains_make(struct chains *chains, enum chains_layout layout, size_t nodes, uint64_t seed) {
  memset(chains, 0, sizeof *chains);
  size_t spacing = layout == CHAINS_ONE_PER_PAGE ? CHAINS_OS_PAGE_BYTES : CHAINS_LINE_BYTES;
  uint32_t *order = calloc(nodes + nodes / PAGE_LINES + 1, sizeof *order); /* and the order of OS pages */
  if (!order || map(chains, nodes * spacing, layout == CHAINS_EVERY_LINE) != 0) {
    free(order);
    return -1;
  }
  chains->nodes = nodes;
  size_t group = layout == CHAINS_EVERY_LINE && !chains->huge_pages ? GROUP_LINES : nodes;
  uint64_t state = seed * 2 + 1;
  fill_far(order, nodes, group, &state);
  link_ring(chains, layout, CHAINS_FAR, order);
  if (layout == CHAINS_EVERY_LINE) {
    fill_near(order, order + nodes, nodes, &state);
    link_ring(chains, layout, CHAINS_NEAR, order);
  }
  free(order);
  return 0;
}

void chains_free(struct chains *chains) {
  if (chains->memory)
    munmap(chains->memory, chains->bytes);
  memset(chains, 0, sizeof *chains);
}

void chains_walk_dependent(struct chains *chains, enum chains_order order, size_t loads) {
  struct chains_ring *ring = &chains->rings[order];
  void **walker = ring->walkers[ring->turn];
  for (size_t load = 0; load < loads; load += CHAINS_WALKERS) {
#pragma GCC unroll 8
    for (size_t step = 0; step < CHAINS_WALKERS; step++)
      walker = *(void **volatile *)walker;
  }
  ring->walkers[ring->turn] = walker;
  ring->turn = (ring->turn + 1) % CHAINS_WALKERS;
}

void chains_walk_independent(struct chains *chains, enum chains_order order, size_t loads) {
  void **walkers[CHAINS_WALKERS];
  memcpy(walkers, chains->rings[order].walkers, sizeof walkers);
  for (size_t load = 0; load < loads; load += CHAINS_WALKERS) {
#pragma GCC unroll 8
    for (size_t index = 0; index < CHAINS_WALKERS; index++)
      walkers[index] = *(void **volatile *)walkers[index];
  }
  memcpy(chains->rings[order].walkers, walkers, sizeof walkers);
}

void chains_walk_stream(struct chains *chains, size_t loads) {
  while (loads > 0) {
    size_t here = chains->nodes - chains->line < loads ? chains->nodes - chains->line : loads;
    const char *at = chains->memory + chains->line * CHAINS_LINE_BYTES;
    for (size_t load = 0; load < here; load += CHAINS_WALKERS) {
#pragma GCC unroll 8
      for (size_t step = 0; step < CHAINS_WALKERS; step++)
        (void)*(void *const volatile *)(at + (load + step) * CHAINS_LINE_BYTES);
    }
    chains->line = (chains->line + here) % chains->nodes;
    loads -= here;
  }
}
