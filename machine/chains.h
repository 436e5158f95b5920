/* SPDX-License-Identifier: MIT */
/* Chains of loads: what a miss costs, from one that waits for the load before, to eight at a time.

   Job: lays a ring of nodes, each holding the address of the next, over a working set in random order, and walks it.
   One walker is a dependent chain: no load can start before the last has come back. CHAINS_WALKERS of them, spread
   evenly over the ring, are independent chains: each node is still met once per turn of the ring, so a cache that is
   smaller than the set and replaces the least recently used never hits, however many walk. A second ring over the same
   lines stays in CHAINS_NEAR_PAGES OS pages until it has met all their lines: prefetchers that watch a page bring some
   of those. And walks the set's lines in order of address, each address known beforehand: what a line costs that a
   prefetcher brings. Not its job: when and how often to walk. Invariants: a ring has `nodes` nodes, no two in one line.
   Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHAINS_WALKERS = 8, CHAINS_LINE_BYTES = 64, CHAINS_OS_PAGE_BYTES = 4096 };
/* Eight walkers are then in 32 OS pages at a time. Prefetchers watch some tens. */
enum { CHAINS_NEAR_PAGES = 4 };

enum chains_order {
  CHAINS_FAR, /* at random over the whole set */
  CHAINS_NEAR /* the lines of CHAINS_NEAR_PAGES OS pages at random, then those of others; of CHAINS_EVERY_LINE */
};

struct chains_ring {
  void **walkers[CHAINS_WALKERS];
  unsigned turn; /* which walker makes the next dependent walk: all get on alike */
};

struct chains {
  char *memory;
  size_t bytes; /* mapped */
  size_t nodes;
  bool huge_pages;             /* the kernel gave 2 MiB pages, so that no TLB misses */
  struct chains_ring rings[2]; /* of each chains_order; a node of ring N is word N of its line */
  size_t line;                 /* where the walk in order of address goes on */
};

enum chains_layout {
  CHAINS_EVERY_LINE,  /* every line of the working set; on huge pages, or at random within 256 OS pages at a time */
  CHAINS_ONE_PER_PAGE /* one line of each OS page of 4 KiB, at offsets that differ */
};

/* Lays the rings of `nodes` nodes (at least CHAINS_WALKERS, a multiple of it). Returns 0, or -1: no memory. To be freed
   with chains_free. */
int chains_make(struct chains *chains, enum chains_layout layout, size_t nodes, uint64_t seed);
void chains_free(struct chains *chains);

/* Each makes `loads` loads, a multiple of CHAINS_WALKERS, and goes on where the last ended. */
void chains_walk_dependent(struct chains *chains, enum chains_order order, size_t loads);
void chains_walk_independent(struct chains *chains, enum chains_order order, size_t loads);

/* The same, line by line in order of address, from the first again after the last. Of CHAINS_EVERY_LINE. */
void chains_walk_stream(struct chains *chains, size_t loads);
