/* SPDX-License-Identifier: MIT */
/* Faults in the file pages of all loaded objects: of the engine, the allocator and their libraries.

   Job: make the count of page faults that follows independent of the page cache. A page of a file faults at its first
   use, unless the kernel mapped it along with a neighbour, which it does as far as the page cache has both in one
   piece: the same run counted one fault more after the engine's file had been read from the disk again. Faulted in
   beforehand, such pages fault no more, and what is counted is memory: anonymous pages, and private copies of a
   library's data. Not its job: what is loaded afterwards (dlopen), and what is no loaded object. Uses no malloc. */
#pragma once

/* Before the first op, as it makes a system call (madvise) for each segment. Changes errno. What can't be faulted in is
   left out. */
void file_pages_fault_in(void);
