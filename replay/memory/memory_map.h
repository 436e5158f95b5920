/* SPDX-License-Identifier: MIT */
/* The memory map: at about MAP_POSITIONS positions of the replay, how many bytes of each region of addresses are live,
   and how many are resident (residency.h); resident bytes that are not live are held by the allocator. At the same
   positions fragmentation is measured (fragmentation.h).

   Job: join object table and resident OS pages, OS page by OS page (os_pages.h), and sum up by region.
   Not its job: when to sample (memory.c), drawing.
   Invariants: cells are exact under the recorded order; no memory beyond tables mapped at setup; bytes that don't fit
   are counted in the result's map_lost_bytes. Costs O(slots in use + page tables) per position. */
#pragma once

#include "replay/engine/state.h"
#include "replay/memory/memory_figures.h"

/* Chooses the size of a region, from the workload's peak. Returns 0, or -1 with errno set. */
int memory_map_setup(struct memory_figures *result);

/* Adds a position: u32 n, then n times (u64 region number, u32 live bytes, u32 resident bytes), regions ascending.
   rss_anon_bytes: of the process, read just before the call. One caller at a time. */
void memory_map_add(uint64_t position, uint64_t rss_anon_bytes);

/* Samples a position for the blame pass (replay/blame/): fills in parts, and adds the position only if `add`. The table
   of OS pages stays as of this moment until the next sample. Call only where fragmentation is measured, after the first
   memory_map_add. */
void memory_map_sample(uint64_t position, uint64_t rss_anon_bytes, bool add, struct fragmentation_row *parts);
