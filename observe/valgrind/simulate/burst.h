/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode replay of a recording in bursts: what was accessed in the burst under way, and what the program got in it.

   Job: is this access the first one of the burst to its line, or to its OS page? Before, the program accessed what was
   not recorded, so whether that access misses is not known; of the line's next ones it is, where the least recently
   used is replaced: what lies between two accesses of a burst is all recorded. And was this OS page mapped anew in the
   burst, so that its first touch is a page fault for certain? Not its job: caches, counting. Invariants: memory is some
   4 KiB for each 2 MiB of addresses in which bursts access something, and for each 128 MiB in which they get something.
 */
#pragma once

#include <pub_tool_basics.h>

/* A burst begins: nothing was accessed in it, and nothing mapped. */
void burst_begin(void);

/* line: address / 64; page: address / 4096. Returns True the first time in the burst. */
Bool burst_first_line(UWord line);
Bool burst_first_page(UWord page);

/* The OS pages that lie wholly or in part in that range are not touched from now on. Of a range of more than 64 GiB
   only the beginning is noted. */
void burst_note_given(Addr address, SizeT bytes);
Bool burst_was_given(UWord page);
