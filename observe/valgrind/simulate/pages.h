/* SPDX-License-Identifier: GPL-2.0-only */
/* First touches of OS pages: the page faults of a machine that maps an OS page when it is first accessed.

   Job: has this OS page been touched since it was last given back? Not its job: who touches it, and how often to check
   (simulate.c checks when an access is to another OS page than the previous access).
   Invariants: an OS page is touched once until it is given back: by munmap, by a mapping made over it, by a data
   segment that shrinks, by a move with mremap, by madvise with MADV_DONTNEED or MADV_REMOVE. MADV_FREE gives nothing
   back: the kernel takes such pages only when it is short of memory. A range that begins or ends within an OS page
   gives back the same pages as in the kernel: whole pages from the first that begins in it, up to and including the one
   in which it ends. Addresses are any numbers of 64 bits: a replay may use made-up ones. Not seen: touches by the
   kernel (arguments at start-up, buffers of read), pages that it maps around one of a file, huge pages, copies after a
   fork. */
#pragma once

#include <pub_tool_basics.h>

enum { PAGE_FAULTS_SHIFT = 12 };

/* page: address >> PAGE_FAULTS_SHIFT. Returns whether this is the first touch, and notes it. */
Bool page_faults_touch(UWord page);

/* Its time is bounded by the number of touched pages, however long the range is. */
void page_faults_give_back(Addr address, SizeT bytes);

/* mremap: the pages' contents move along, and the old ones are given back. The ranges do not overlap. */
void page_faults_move(Addr from, Addr to, SizeT bytes);

/* Mode replay of a recording in bursts: the memory accessed in the present burst, and the memory that the program got
   from the system in it.

   Job: is this access the burst's first one to its line, or to its OS page? Accesses before the burst were not
   recorded, so whether that access misses is not known. For later accesses to the line it is known, where the least
   recently used line is replaced: all accesses between two accesses of a burst are recorded. And was this OS page newly
   mapped in the burst, so that its first touch is certainly a page fault? Invariants: memory is about 4 KiB for each 2
   MiB of addresses in which bursts access memory, and for each 128 MiB in which they get memory. */

/* A burst begins: forgets all accesses and mappings. */
void burst_begin(void);

/* line: address / 64; page: address / 4096. Returns True the first time in the burst. */
Bool burst_first_line(UWord line);
Bool burst_first_page(UWord page);

/* The OS pages that are completely or partly in that range are new, and untouched. Of a range of more than 64 GiB only
   the beginning is noted. */
void burst_note_given(Addr address, SizeT bytes);
Bool burst_was_given(UWord page);
