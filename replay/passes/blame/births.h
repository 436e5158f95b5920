/* SPDX-License-Identifier: MIT */
/* The birth of each live object: its position, site, thread and phase.

   Job: note births as ops are replayed, in the recorded order; open the origins file in the engine. Not its job: using
   the births (attribution.h). Invariants: a slot's entry describes the object that lives there, also after a realloc;
   memory mapped at set-up; nothing here calls malloc. */
#pragma once

#include "core/workload/origins.h"
#include "replay/engine/state.h"

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
