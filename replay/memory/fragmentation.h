/* SPDX-License-Identifier: MIT */
/* Fragmentation: what the resident memory consists of, at each position of the memory map.

   Job: sum up the table of OS pages (os_pages.h) that the memory map has filled, and the allocator's own heap walk
   (heap_walk.h) over it; know each object's usable size. Not its job: when (memory.c); what remains of RssAnon beside
   these sums is for the reader of the results to name.
   Invariants: only under orders by turns, as nothing may change while it sums; calls malloc_usable_size once per
   object, at the first position after its acquire, never inside an op; its tables are shared mappings; the measured
   sums of a position are of disjoint bytes. */
#pragma once

#include "replay/state/engine_state.h"

enum { ROUNDING_UNKNOWN = UINT32_MAX };

/* Of each slot's object: usable minus requested bytes. NULL: fragmentation is not measured in this run. */
extern uint32_t *fragmentation_rounding;

/* Memory pass; after os_pages_setup. Returns 0, or -1 with errno set. */
int fragmentation_setup(struct replay_result *result);

/* Around what the memory map does at a position: before it looks at residency; and when the table of OS pages is full.
   live_bytes: requested, resident or not. fragmentation_measure fills in the row's sums. */
void fragmentation_begin(void);
void fragmentation_measure(struct fragmentation_row *row);
void fragmentation_add(uint64_t position, uint64_t rss_anon_bytes, uint64_t live_bytes);

/* Usable minus requested bytes of the object in a slot; 0 where that is not measured. */
uint32_t fragmentation_rounding_of(uint32_t slot, const struct object *object);

void fragmentation_note_object(uint64_t address, uint64_t bytes);

/* After each acquire of the memory pass. */
static inline void fragmentation_note_acquire(uint32_t slot, const struct object *object) {
  if (!fragmentation_rounding || !object->pointer)
    return;
  fragmentation_rounding[slot] = ROUNDING_UNKNOWN;
  fragmentation_note_object((uint64_t)(uintptr_t)object->pointer, object->size_bytes);
}
