/* SPDX-License-Identifier: MIT */
/* Faults in the file pages of all loaded ELF objects: the engine, the allocator and their libraries.

   Job: make later counts of page faults independent of the page cache. A page of a file faults at its first use, unless
   the kernel mapped it along with a neighbour. The kernel does that if the page cache has both in one piece: the same
   run counted one fault more after the engine's file had been read from the disk again. Pages that were faulted in
   beforehand do not fault again, so only memory is counted: anonymous pages, and private copies of a library's data.
   Not its job: objects loaded afterwards (dlopen), and other mapped files. Uses no malloc. */
#pragma once

/* Call before the first op, as it makes a system call (madvise) for each segment. Changes errno. Skips what can't be
   faulted in. */
void file_pages_fault_in(void);
