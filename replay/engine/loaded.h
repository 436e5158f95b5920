/* SPDX-License-Identifier: MIT */
/* What is loaded into the engine's process: the allocator under test, its libraries, the dynamic linker.

   Job: report what the linker loaded; check that the allocator defines what the workload calls; fault in file pages;
   read what the allocator itself counted. Uses no malloc. */
#pragma once

#include "replay/engine/result.h"

/* Fills in preloads_missing (from LD_PRELOAD: the linker only warns about a library that it can't load), linker_first
   and linker_last. */
void preload_report(struct replay_result *result);

/* Fills in which library's malloc the calls go to. Call after the set-up of calls. */
void malloc_library_report(struct malloc_library *library);

/* Call after the set-up of calls, before the first op. Ends the process with an error that names the library and the
   all missing functions if an op needs a function that the library lacks and for which there is no substitute
   (call_lacks), or if the library has malloc but no free. Reads the streams only if there is such a function. */
void entry_points_require(void);

/* Faults in the file pages of all loaded ELF objects, so that later counts of page faults do not depend on the page
   cache. A page of a file faults at its first use, unless the kernel mapped it along with a neighbour. The kernel does
   that if the page cache has both in one piece: the same run counted one fault more after the engine's file had been
   read from the disk again. Pages that were faulted in beforehand do not fault again, so only memory is counted:
   anonymous pages, and private copies of a library's data. Not: objects loaded afterwards (dlopen), and other mapped
   files. Call before the first op, as it makes a system call (madvise) for each segment. Changes errno. Skips what
   can't be faulted in. */
void file_pages_fault_in(void);

/* Fills in the counts of this process's allocator, if it has any. The parent prints them as "reference_stats": the key
   is older than our other allocators. Do not call while other threads start or end. */
void allocator_stats_read(struct allocator_stats *stats);
