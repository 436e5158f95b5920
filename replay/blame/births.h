/* SPDX-License-Identifier: MIT */
/* Where each live object comes from: position of its birth, and its site, thread and phase.

   Job: note births as ops are replayed, in the recorded order; open the origins file in the engine. Not its job: what
   follows from them (attribution.h). Invariants: a slot's entry is that of the object that lives there, realloc
   included; memory mapped at set-up; nothing here calls malloc. */
#pragma once

#include "core/workload/origins.h"
#include "replay/state/engine_state.h"

struct birth {
  uint64_t position;
  uint32_t site, thread, phase;
};

struct births {
  struct origins origins; /* bytes NULL: there are none */
  struct birth *of_slot;
  uint32_t phase; /* of an object that is born now */
};

extern struct births births;

/* Before the first op; fails by engine_fail. */
void births_setup(const struct replay_setup *setup);

/* How many sites and functions there are, 0 included, and phases. */
uint32_t births_sites(void);
uint32_t births_functions(void);
uint32_t births_phases(void);

/* The function of a site. */
static inline uint32_t births_function(uint32_t site) {
  return births.origins.bytes ? births.origins.function_of_site[site] : 0;
}

/* The op at that position, of that thread, made the object in the slot out of nothing. Positions rise. */
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
