/* SPDX-License-Identifier: MIT */
/* The call sites of a plan in this process: which region serves a call.

   Job: addresses of the plan's frames; comparing a call's return address with those of innermost frames, and the stack
   above it with the further frames. Not its job: memory. Reads a caller's frame only where the return address is the
   plan's, by the unwind rule that the module of that build has for it, computed once. Sites are added before there are
   threads. Takes no lock, allocates nothing. */
#pragma once

#include "place/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum { SITES_FIRST_BITS = 10 };

/* Return addresses of innermost frames, each at the place that the factor gives it. */
struct sites_first {
  uintptr_t factor;
  uintptr_t addresses[1 << SITES_FIRST_BITS];
  uint8_t regions[1 << SITES_FIRST_BITS]; /* 0: further frames decide */
};
extern struct sites_first sites_first __attribute__((visibility("hidden")));

/* Adds the sites whose modules are loaded, and returns their number; sites that end within another, or that can't be
   told apart by frames with unwind rules, are left out. */
uint32_t sites_add(const struct plan *plan);

static inline __attribute__((always_inline)) size_t sites_first_place(uintptr_t address) {
  return address * sites_first.factor >> (64 - SITES_FIRST_BITS);
}

/* May this be a call of a site? */
static inline __attribute__((always_inline)) bool sites_may_be(const void *caller) {
  return sites_first.addresses[sites_first_place((uintptr_t)caller)] == (uintptr_t)caller;
}

/* Where a call was made: its return address, and the caller's stack and frame pointer after its return. */
struct sites_call {
  uintptr_t address, stack_pointer, frame_pointer;
};

/* The region of a call that may be of a site, decided by the frames above it; 0: it is of none. */
unsigned sites_region_above(struct sites_call call);

static inline __attribute__((always_inline)) unsigned sites_region(struct sites_call call) {
  unsigned region = sites_first.regions[sites_first_place(call.address)];
  return region ? region : sites_region_above(call);
}
