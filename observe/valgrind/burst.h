/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode replay of a recording in bursts: the memory accessed in the present burst, and the memory that the program got
   from the system in it.

   Job: is this access the burst's first one to its line, or to its OS page? Accesses before the burst were not
   recorded, so whether that access misses is not known. For later accesses to the line it is known, where the least
   recently used line is replaced: all accesses between two accesses of a burst are recorded. And was this OS page newly
   mapped in the burst, so that its first touch is certainly a page fault? Not its job: caches, counting. Invariants:
   memory is about 4 KiB for each 2 MiB of addresses in which bursts access memory, and for each 128 MiB in which they
   get memory. */
#pragma once

#include <pub_tool_basics.h>

/* A burst begins: forgets all accesses and mappings. */
void burst_begin(void);

/* line: address / 64; page: address / 4096. Returns True the first time in the burst. */
Bool burst_first_line(UWord line);
Bool burst_first_page(UWord page);

/* The OS pages that are completely or partly in that range are new, and untouched. Of a range of more than 64 GiB only
   the beginning is noted. */
void burst_note_given(Addr address, SizeT bytes);
Bool burst_was_given(UWord page);
