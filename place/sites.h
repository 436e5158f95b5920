/* SPDX-License-Identifier: MIT */
/* The call sites of a plan in this process: which region serves a call.

   Job: addresses of the plan's frames; comparing a call's return address with those of innermost frames, and the stack
   above it with the further frames. Reads a caller's frame only where the return address is the plan's, by the unwind
   rule that the module of that build has for it, computed once. A table of sites never changes once it is published:
   where libraries came or went, another takes its place, and the old one stays for those who read it. Lookups take no
   lock; nothing is allocated by malloc. */
#pragma once

#include "place/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITES_FIRST_BITS = 10 };

struct site_node; /* a frame */

/* Return addresses of innermost frames, each at the place that the factor gives it. */
struct sites {
  uintptr_t factor;
  uintptr_t addresses[1 << SITES_FIRST_BITS];
  uint8_t regions[1 << SITES_FIRST_BITS]; /* 0: further frames decide */
  uint16_t nodes[1 << SITES_FIRST_BITS];
  struct site_node *all_nodes;
};
extern const struct sites *sites __attribute__((visibility("hidden")));

/* Adds the sites whose modules are loaded, and returns their number; sites that end within another, or that can't be
   told apart by frames with unwind rules, are left out. With fewer than the plan has, the plan must stay. Called once,
   before there are threads. */
uint32_t sites_begin(const struct plan *plan);

/* The same for libraries that were loaded or closed since; nothing is done if another thread is at it. */
void sites_refresh(void);

static inline __attribute__((always_inline)) size_t sites_place(const struct sites *table, uintptr_t address) {
  return address * table->factor >> (64 - SITES_FIRST_BITS);
}

/* Is this the return address of an innermost frame? */
static inline __attribute__((always_inline)) bool sites_has(const struct sites *table, const void *caller) {
  return table->addresses[sites_place(table, (uintptr_t)caller)] == (uintptr_t)caller;
}

/* The region of a call with such a return address, decided by the frames above it; 0: it is of no site. frame: the
   caller's frame pointer, and after it the return address. */
unsigned sites_region_above(const struct sites *table, uintptr_t address, const uintptr_t *frame);
