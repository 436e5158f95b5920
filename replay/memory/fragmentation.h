/* SPDX-License-Identifier: MIT */
/* Fragmentation: the parts of resident memory, at each position of the memory map.

   Job: sum up the table of OS pages (os_pages.h) that the memory map has filled, and the allocator's own heap walk
   (figures.h) over it; keep each object's usable size. Not its job: when to sum up (memory.c); naming what remains of
   RssAnon beside these sums (the reader of the results does).
   Invariants: only under orders by turns, as nothing may change while it sums; calls malloc_usable_size once per
   object, right after its acquire and on its thread: jemalloc gives no cache to a thread that only frees, but one to a
   thread that asks for a size; its tables are shared mappings; the measured sums of a position are of disjoint
   bytes. */
#pragma once

#include "replay/engine/state.h"
#include "replay/memory/figures.h"
#include "replay/memory/os_pages.h"

/* Usable minus requested bytes of each slot's object. NULL: fragmentation is not measured in this run. */
extern uint32_t *fragmentation_rounding;

/* Returns the usable minus the requested bytes of the object in a slot; 0 where that is not measured. */
uint32_t fragmentation_rounding_of(uint32_t slot);

/* Only where it is measured: notes that of the object in a slot. */
void fragmentation_measure_rounding(uint32_t slot, const struct object *object);

/* Call after each acquire of the memory pass. */
static inline void fragmentation_note_acquire(uint32_t slot, const struct object *object) {
  if (!fragmentation_rounding || !object->pointer)
    return;
  fragmentation_measure_rounding(slot, object);
  os_pages_note_object((uint64_t)(uintptr_t)object->pointer, object->size_bytes);
}

/* The memory map: at about MAP_POSITIONS positions of the replay, how many bytes of each cell of addresses are live,
   and how many are resident (residency.h); resident bytes that are not live are held by the allocator. At the same
   positions fragmentation is measured (fragmentation.h).

   Job: join object table and resident OS pages, OS page by OS page (os_pages.h), and sum up by cell. Invariants: cells
   are exact under the recorded order; no memory beyond tables mapped at setup; bytes that don't fit are counted in the
   result's map_lost_bytes. Costs O(slots in use + page tables) per position. */

/* Chooses the size of a cell, from the workload's peak. Returns 0, or -1 with errno set. */
int memory_map_setup(struct memory_figures *result);

/* Adds a position: u32 n, then n times (u64 region number, u32 live bytes, u32 resident bytes), regions ascending.
   rss_anon_bytes: of the process, read just before the call. One caller at a time. */
void memory_map_add(uint64_t position, uint64_t rss_anon_bytes);

/* Samples a position for the blame pass (replay/blame/): fills in parts, and adds the position only if `add`. The table
   of OS pages stays as of this moment until the next sample. Call only where fragmentation is measured, after the first
   memory_map_add. */
void memory_map_sample(uint64_t position, uint64_t rss_anon_bytes, bool add, struct fragmentation_row *parts);
