/* SPDX-License-Identifier: MIT */
/* Attribution: who holds each byte of the resident OS pages, at one position (docs/use/BLAME.md).

   Job: note the birth of each live object (position, site, thread, phase); join the live objects with the OS pages that
   they are in, share each OS page's empty bytes among its objects, and sum up by group. Not its job: when to attribute
   (blame.h), rows (groups.h), which OS pages are resident (replay/memory/). Invariants: every byte is attributed, in
   whole bytes: the sums of each grouping are those of the table of OS pages; one caller at a time; memory mapped at
   set-up, O(slots + OS pages + groups); O(live objects + OS pages that they are in) per position. */
#pragma once

#include "core/workload/origins.h"
#include "replay/engine/state.h"
#include "replay/passes/blame/figures.h"

/* An entry describes the object that lives in the slot, also after a realloc. */
struct birth {
  uint64_t position;
  uint32_t site, thread, phase;
};

struct births {
  struct origins origins; /* bytes NULL: no origins file */
  struct birth *of_slot;
  uint32_t phase; /* of an object that is born now */
};

extern struct births births;

/* Call before the first op; origins_fd: -1: no file. Fails by engine_fail. */
void births_setup(int origins_fd);

/* Return the number of sites, functions (number 0 included in both) and phases. */
uint32_t births_sites(void);
uint32_t births_functions(void);
uint32_t births_phases(void);

/* Returns the function of a site. */
static inline uint32_t births_function(uint32_t site) {
  return births.origins.bytes ? births.origins.function_of_site[site] : 0;
}

/* Notes that the op at that position, of that thread, acquired a new object in the slot. Positions rise. */
static inline void births_note(uint64_t position, uint32_t thread, uint32_t slot) {
  uint32_t site = 0;
  if (births.origins.bytes) {
    const struct origins_header *header = &births.origins.header;
    while (births.phase < header->marks && births.origins.marks[births.phase] <= position)
      births.phase++;
    site = position < header->ops ? births.origins.site_of_op[position] : 0;
    if (site >= header->sites)
      site = 0;
  }
  births.of_slot[slot] = (struct birth){position, site, thread, births.phase};
}

/* Call after births_setup. Returns 0, or -1 with errno set. */
int attribution_setup(void);

/* Call right after the memory map has sampled the position; parts: what it found. Fills in the groups (groups.h), which
   must be clear. Returns the number of live objects. */
uint64_t attribution_make(const struct fragmentation_row *parts);
