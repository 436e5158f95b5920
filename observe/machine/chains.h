/* SPDX-License-Identifier: MIT */
/* Chains of loads: the cost of a miss, from one that waits for the previous load, to eight at a time.

   Job: lays a ring of nodes, each holding the address of the next, over a working set in random order, and walks it.
   One walker is a dependent chain: no load can start before the last has come back. CHAINS_WALKERS of them, spread
   evenly over the ring, are independent chains: each node is still visited once per turn of the ring, so a cache that
   is smaller than the set and replaces the least recently used line never hits, however many walkers there are. A
   second ring over the same lines stays in CHAINS_NEAR_PAGES OS pages until it has visited all their lines: prefetchers
   that watch a page fetch some of these. It also walks the set's lines in order of address, each address known
   beforehand: the cost of a line that a prefetcher fetches. Invariants: a ring has `nodes` nodes, no two in one line.
   Not thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHAINS_WALKERS = 8, CHAINS_LINE_BYTES = 64, CHAINS_OS_PAGE_BYTES = 4096 };
/* Eight walkers are then in 32 OS pages at a time. Prefetchers watch a few dozen. */
enum { CHAINS_NEAR_PAGES = 4 };

enum chains_order {
  CHAINS_FAR, /* at random over the whole set */
  CHAINS_NEAR /* the lines of CHAINS_NEAR_PAGES OS pages at random, then those of the next; only with
                 CHAINS_EVERY_LINE */
};

struct chains_ring {
  void **walkers[CHAINS_WALKERS];
  unsigned turn; /* the walker that makes the next dependent walk: all progress equally */
};

struct chains {
  char *memory;
  size_t bytes; /* mapped */
  size_t nodes;
  bool huge_pages;             /* the kernel gave 2 MiB pages, so that no TLB misses */
  struct chains_ring rings[2]; /* of each chains_order; a node of ring N is word N of its line */
  size_t line;                 /* where the walk in order of address continues */
};

enum chains_layout {
  CHAINS_EVERY_LINE,  /* every line of the working set; on huge pages, or at random within 256 OS pages at a time */
  CHAINS_ONE_PER_PAGE /* one line of each OS page of 4 KiB, at offsets that differ */
};

/* Lays the rings of `nodes` nodes (at least CHAINS_WALKERS, a multiple of it). Returns 0, or -1: no memory. Free with
   chains_free. */
int chains_make(struct chains *chains, enum chains_layout layout, size_t nodes, uint64_t seed);
void chains_free(struct chains *chains);

/* Each makes `loads` loads, a multiple of CHAINS_WALKERS, and continues where the last walk ended. */
void chains_walk_dependent(struct chains *chains, enum chains_order order, size_t loads);
void chains_walk_independent(struct chains *chains, enum chains_order order, size_t loads);

/* As chains_walk_dependent, line by line in order of address, then from the first line again. Only with
 * CHAINS_EVERY_LINE. */
void chains_walk_stream(struct chains *chains, size_t loads);
