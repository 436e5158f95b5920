/* SPDX-License-Identifier: GPL-2.0-only */
/* First touches of OS pages: the page faults of a machine that maps an OS page when it is first accessed.

   Job: has this OS page been touched since it was last given back? Not its job: who touches it, and how often that is
   asked (simulate.c asks when an access is to another OS page than the one before it).
   Invariants: an OS page is touched once until it is given back: by munmap, by a mapping made over it, by a data
   segment that shrinks, by mremap's old place, by madvise with MADV_DONTNEED or MADV_REMOVE. MADV_FREE gives nothing
   back: the kernel takes such pages only when it is short of memory. A range that begins or ends within an OS page
   gives back what the kernel does: whole pages from the first that begins in it, up to and with the one in which it
   ends. Addresses are any numbers of 64 bits: a replay may ask about ones that it made up. Not seen: what the kernel
   touches (arguments at start-up, buffers of read), pages that it maps around one of a file, huge pages, copies after a
   fork. */
#pragma once

#include <pub_tool_basics.h>

enum { PAGE_FAULTS_SHIFT = 12 };

/* page: address >> PAGE_FAULTS_SHIFT. Returns whether it was not touched before, and is from now on. */
Bool page_faults_touch(UWord page);

/* Costs no more than there are touched pages, however long the range is. */
void page_faults_give_back(Addr address, SizeT bytes);

/* mremap: the pages' contents move along, and the old ones are given back. The ranges do not overlap. */
void page_faults_move(Addr from, Addr to, SizeT bytes);
