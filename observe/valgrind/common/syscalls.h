/* SPDX-License-Identifier: GPL-2.0-only */
/* System calls, by kind and side.

   Job: count them as they begin. Not its job: their effect on OS pages (pages.h), except which madvise calls give
   pages back: Valgrind's core reports mappings and the data segment to tools, but not these calls. */
#pragma once

#include <pub_tool_basics.h>
#include <pub_tool_libcprint.h>

/* side: 1 the allocator, 0 the program; 3 and 2 the same, counted separately. */
void syscalls_count(UInt number, UInt side);
void syscalls_reset(void);

/* Keys "syscalls" (all) and "syscalls_by_kind"; of sides 0 and 1 together where side is negative. */
void syscalls_write(VgFile *file, Int side);

/* Is this madvise of a kind that gives the pages of arguments[0] to arguments[0] + arguments[1] back? */
Bool syscalls_gives_back(UInt number, const UWord *arguments);

/* Is this execve or execveat? */
Bool syscalls_is_exec(UInt number);
