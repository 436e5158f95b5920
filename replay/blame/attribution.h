/* SPDX-License-Identifier: MIT */
/* Attribution: who holds each byte of the resident OS pages, at one position (docs/use/BLAME.md).

   Job: join the live objects with the OS pages that they lie in, share each one's empty bytes among them, and sum up by
   group. Not its job: when (blame.h), rows (groups.h), which OS pages are resident (replay/memory/).
   Invariants: whole bytes, and all of them: the sums of each grouping are those of the table of OS pages; one caller at
   a time; memory mapped at set-up, O(slots + OS pages + groups); O(live objects + OS pages that they lie in) per
   position. */
#pragma once

#include "replay/state/blame_figures.h"

/* After births_setup. Returns 0, or -1 with errno set. */
int attribution_setup(void);

/* Right after the memory map has looked at the position, whose parts it found: fills in the groups (groups.h), which
   must be clear. Returns the number of live objects. */
uint64_t attribution_make(const struct fragmentation_row *parts);
