/* SPDX-License-Identifier: MIT */
/* Which objects lie in each OS page of the present moment (os_pages.h).

   Job: a list of objects for each OS page, made by counting: all objects are given twice, in the same order. Not its
   job: what objects are; they are numbers here. Invariants: a list has its objects in the order in which they were
   given; memory mapped at set-up, eight bytes per OS page of the table, and four per object and OS page that it lies
   in; no malloc. There is room for all objects that do not overlap; where they do so much that there is not, lists have
   their first objects only, each at least one. Sorting all objects by address instead took half of an attribution's
   time. */
#pragma once

#include <stdint.h>

/* Behind a list this many more may be read, though not used: a caller may look ahead. */
enum { PAGE_LISTS_BEYOND = 16 };

/* At most so many objects. Returns 0, or -1 with errno set. */
int page_lists_setup(uint32_t most_objects);

/* A new moment, of which the table of OS pages is complete. Then page_lists_count for all objects, page_lists_lay_out,
   and page_lists_put for the same. Empty ranges lie nowhere. */
void page_lists_begin(void);
void page_lists_count(uint64_t address, uint64_t bytes);
void page_lists_lay_out(void);
void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object);

/* The list of the OS page at that place of the table. */
const uint32_t *page_lists_of(uint32_t place, uint32_t *count);
