/* SPDX-License-Identifier: MIT */
/* A ring has as many nodes as planned, each in its own line, and walkers are spread evenly over it: so one turn of all
   walkers visits each line once, and no cache smaller than the ring hits. */
#include "core/test/check.h"
#include "observe/machine/chains.h"

#include <stdlib.h>

static void check_ring(enum chains_layout layout, enum chains_order order, size_t nodes) {
  struct chains chains;
  CHECK(chains_make(&chains, layout, nodes, 7) == 0);
  CHECK(chains.nodes == nodes);
  size_t spacing = layout == CHAINS_ONE_PER_PAGE ? CHAINS_OS_PAGE_BYTES : CHAINS_LINE_BYTES;
  unsigned char *met = calloc(nodes, 1);
  CHECK(met != NULL);
  void ***walkers = chains.rings[order].walkers, **start = walkers[0], **at = start;
  size_t in_order = 0, same_page = 0;
  for (size_t index = 0; index < nodes; index++) {
    if (index % (nodes / CHAINS_WALKERS) == 0)
      CHECK(walkers[index / (nodes / CHAINS_WALKERS)] == at);
    size_t offset = (size_t)((char *)at - chains.memory);
    CHECK(offset < nodes * spacing && offset % CHAINS_LINE_BYTES == order * sizeof *at);
    CHECK(met[offset / spacing]++ == 0);
    void **next = *at;
    in_order += next == at + spacing / sizeof *at;
    same_page += (uintptr_t)next / CHAINS_OS_PAGE_BYTES == (uintptr_t)at / CHAINS_OS_PAGE_BYTES;
    at = next;
  }
  CHECK(at == start);
  CHECK(in_order < nodes / 4); /* in random order, one of `nodes` would be in order */
  /* By chance one in CHAINS_NEAR_PAGES. */
  if (order == CHAINS_NEAR)
    CHECK(same_page > nodes / CHAINS_NEAR_PAGES / 2);
  else if (nodes >= 4096)
    CHECK(same_page < nodes / CHAINS_NEAR_PAGES / 2);
  free(met);
  chains_free(&chains);
}

static void check_walks(void) {
  struct chains chains;
  enum { NODES = 4096, LOADS = 96 };
  CHECK(chains_make(&chains, CHAINS_EVERY_LINE, NODES, 3) == 0);
  void **expected[CHAINS_WALKERS];
  for (size_t walker = 0; walker < CHAINS_WALKERS; walker++) {
    expected[walker] = chains.rings[CHAINS_FAR].walkers[walker];
    size_t steps = LOADS / CHAINS_WALKERS + (walker == 0 ? LOADS : 0);
    for (size_t step = 0; step < steps; step++)
      expected[walker] = *expected[walker];
  }
  chains_walk_dependent(&chains, CHAINS_FAR, LOADS);
  chains_walk_independent(&chains, CHAINS_FAR, LOADS);
  for (size_t walker = 0; walker < CHAINS_WALKERS; walker++)
    CHECK(chains.rings[CHAINS_FAR].walkers[walker] == expected[walker]);
  chains_walk_stream(&chains, LOADS);
  CHECK(chains.line == LOADS);
  chains_walk_stream(&chains, 3 * NODES - LOADS + 8);
  CHECK(chains.line == 8);
  chains_free(&chains);
}

int main(void) {
  for (size_t nodes = 64; nodes <= 1 << 16; nodes *= 4) {
    check_ring(CHAINS_EVERY_LINE, CHAINS_FAR, nodes);
    check_ring(CHAINS_EVERY_LINE, CHAINS_NEAR, nodes);
    check_ring(CHAINS_ONE_PER_PAGE, CHAINS_FAR, nodes > 4096 ? 4096 : nodes);
  }
  check_ring(CHAINS_EVERY_LINE, CHAINS_FAR, 3 * 2048 + 8);
  check_ring(CHAINS_EVERY_LINE, CHAINS_NEAR, 3 * 2048 + 8);
  check_walks();
  return 0;
}
