/* SPDX-License-Identifier: MIT */
/* The contents of each OS page of the allocator's at one moment, from which occupancy and fragmentation are computed
   (fragmentation.h).

   Job: a table of spans of 512 OS pages, found by hash; for each OS page: whether it is resident, how many bytes of
   live requests and of their rounding are in it, and whether any object ever was. Invariants: one caller at a time; no
   malloc; memory mapped at setup, shared, touched as far as it is used; a range costs O(OS pages), or O(spans) for
   spans with no end of the range and nothing resident in them; what does not fit is counted, never dropped silently. */
#pragma once

#include "replay/memory/figures.h"

#include <stdint.h>

/* Where the bytes of a heap walk are. */
struct os_pages_split {
  uint64_t beside_bytes; /* resident, in an OS page with live requests or their rounding */
  uint64_t empty_bytes;  /* resident, in an OS page without either */
};

/* peak_live_bytes: an estimate of the memory to be covered. Returns 0, or -1 with errno set. */
int os_pages_setup(uint64_t peak_live_bytes);

/* An object begins to live there. Cheap: called once per acquire. No other thread may be in here at the same time. */
void os_pages_note_object(uint64_t address, uint64_t bytes);

/* Begins a new moment: nothing is resident or live. */
void os_pages_begin(void);

/* OS pages of the range that are resident now are not the allocator's: they are in no sum from now on. */
void os_pages_leave_out(uint64_t address, uint64_t bytes);

/* Add all resident memory first, in whole OS pages; then all objects: their requested bytes, and the rounding behind
   these. */
void os_pages_add_resident(uint64_t address, uint64_t bytes);
void os_pages_add_object(uint64_t address, uint64_t bytes, uint64_t rounding_bytes);

/* Call when all are added: calls visit by rising address for what is live or resident; a piece is one OS page, or a
   whole span that is live and has nothing resident. */
void os_pages_visit(void (*visit)(uint64_t address, uint64_t live_bytes, uint64_t resident_bytes));

/* Call when all are added. An OS page neither resident nor live now counts as one in which no object ever was. */
void os_pages_sum_up(struct os_pages_sum *sum);

/* Places: numbers, from 0 to os_pages_places() - 1, of the OS pages of all spans in which anything is resident or live
   at the present moment, in no order. */
enum { OS_PAGES_OF_SPAN = 512, OS_PAGES_PLACES = 1 << 24 };
#define OS_PAGES_NO_PLACE UINT32_MAX
uint64_t os_pages_places(void);

/* Returns the place of the OS page that contains address; OS_PAGES_NO_PLACE: no OS page of its span has a place. */
uint32_t os_pages_place(uint64_t address);

/* A resident OS page that contains requests or their rounding: the bytes of both, as in the sum. */
struct os_page_held {
  uint64_t address, live_bytes, rounding_bytes;
  uint32_t place;
};

/* Call after os_pages_sum_up: calls visit for each of these OS pages, by rising address. */
void os_pages_visit_held(void (*visit)(const struct os_page_held *os_page));

/* Call after os_pages_sum_up: adds a range to split. */
void os_pages_split(uint64_t address, uint64_t bytes, struct os_pages_split *split);

/* Returns the live and resident bytes for which the table had no room, since setup. */
void os_pages_lost(uint64_t *live_bytes, uint64_t *resident_bytes);
