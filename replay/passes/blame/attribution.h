/* SPDX-License-Identifier: MIT */
/* Attribution: who holds each byte of the resident OS pages, at one position (docs/use/BLAME.md).

   Job: join the live objects with the OS pages that they are in, share each OS page's empty bytes among its objects,
   and sum up by group. Not its job: when to attribute (blame.h), rows (groups.h), which OS pages are resident
   (replay/memory/).
   Invariants: every byte is attributed, in whole bytes: the sums of each grouping are those of the table of OS pages;
   one caller at a time; memory mapped at set-up, O(slots + OS pages + groups); O(live objects + OS pages that they are
   in) per position. */
#pragma once

#include "replay/passes/blame/figures.h"

/* Call after births_setup. Returns 0, or -1 with errno set. */
int attribution_setup(void);

/* Call right after the memory map has sampled the position; parts: what it found. Fills in the groups (groups.h), which
   must be clear. Returns the number of live objects. */
uint64_t attribution_make(const struct fragmentation_row *parts);
