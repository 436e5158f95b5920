/* SPDX-License-Identifier: MIT */
/* Which objects are in each OS page at the present moment (os_pages.h).

   Job: a list of objects for each OS page, made by counting: the caller passes all objects twice, in the same order.
   Not its job: what objects are; here they are numbers. Invariants: a list has its objects in the order in which they
   were given; memory mapped at set-up, eight bytes per OS page of the table, and four per object and OS page that it is
   in; no malloc. There is room for all objects if they do not overlap; where so many overlap that it does not suffice,
   lists have only their first objects, at least one each. The alternative, sorting all objects by address, took half of
   an attribution's time. */
#pragma once

#include <stdint.h>

/* A caller that looks ahead may read this many entries behind a list, but not use them. */
enum { PAGE_LISTS_BEYOND = 16 };

/* most_objects: the largest number of objects. Returns 0, or -1 with errno set. */
int page_lists_setup(uint32_t most_objects);

/* Begins a new moment; the table of OS pages must be complete. Then call page_lists_count for all objects,
   page_lists_lay_out, and page_lists_put for the same objects. Empty ranges are in no OS page. */
void page_lists_begin(void);
void page_lists_count(uint64_t address, uint64_t bytes);
void page_lists_lay_out(void);
void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object);

/* Returns the list of the OS page at that place of the table. */
const uint32_t *page_lists_of(uint32_t place, uint32_t *count);
