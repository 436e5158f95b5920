/* SPDX-License-Identifier: MIT */
/* What each OS page of the allocator's holds at one moment: what occupancy and fragmentation are computed from
   (fragmentation.h).

   Job: a table of spans of 512 OS pages, found by hash; in each OS page whether it is resident, how many bytes of live
   requests and of their rounding lie in it, and whether any object ever did. Not its job: which objects live and where
   sums go (memory_map.c, fragmentation.c), which OS pages are resident (residency.h).
   Invariants: one caller at a time; no malloc; memory mapped at setup, shared, touched as far as it is used; a range
   costs O(OS pages), or O(spans) where neither end nor anything resident lies in a span; what does not fit is counted,
   never dropped silently. */
#pragma once

#include "replay/state/memory_figures.h"

#include <stdint.h>

/* Where bytes of a heap walk lie. */
struct os_pages_split {
  uint64_t beside_bytes; /* resident, in an OS page with live requests or their rounding */
  uint64_t empty_bytes;  /* resident, in an OS page without */
};

/* peak_live_bytes: about as much memory will be looked at. Returns 0, or -1 with errno set. */
int os_pages_setup(uint64_t peak_live_bytes);

/* An object begins to live there. Cheap: called once per acquire. Only where no other thread is in here at the same
 * time.
 */
void os_pages_note_object(uint64_t address, uint64_t bytes);

/* A new moment: nothing is resident or live. */
void os_pages_begin(void);

/* What is resident now is not the allocator's, for good: it is in no sum. */
void os_pages_leave_out(uint64_t address, uint64_t bytes);

/* Residency comes first, whole OS pages; then all objects: so many bytes requested, and the rounding behind them. */
void os_pages_add_resident(uint64_t address, uint64_t bytes);
void os_pages_add_object(uint64_t address, uint64_t bytes, uint64_t rounding_bytes);

/* When all are added: calls visit by rising address for what is live or resident; a piece is of one OS page, or of a
   whole span that is live and nowhere resident. */
void os_pages_visit(void (*visit)(uint64_t address, uint64_t live_bytes, uint64_t resident_bytes));

/* When all are added. What is not resident and not live forgets that an object ever was there. */
void os_pages_sum_up(struct os_pages_sum *sum);

/* OS pages of the present moment by number: those of the spans in which anything is resident or live, in no order, from
   0 to os_pages_places() - 1. */
enum { OS_PAGES_OF_SPAN = 512, OS_PAGES_PLACES = 1 << 24 };
#define OS_PAGES_NO_PLACE UINT32_MAX
uint64_t os_pages_places(void);

/* Of the OS page that address lies in; OS_PAGES_NO_PLACE: neither it nor another one of its span has one. */
uint32_t os_pages_place(uint64_t address);

/* A resident OS page in which requests or their rounding lie: the bytes of both, as the sum has them. */
struct os_page_held {
  uint64_t address, live_bytes, rounding_bytes;
  uint32_t place;
};

/* After os_pages_sum_up: calls visit for each of these, by rising address. */
void os_pages_visit_held(void (*visit)(const struct os_page_held *os_page));

/* After os_pages_sum_up: adds a range to split. */
void os_pages_split(uint64_t address, uint64_t bytes, struct os_pages_split *split);

/* Live and resident bytes that the table had no room for, since setup. */
void os_pages_lost(uint64_t *live_bytes, uint64_t *resident_bytes);
