/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode count: instructions of the client, in total and by kind of call.

   Job: count the instructions below the calls that registered code makes (core/system/valgrind_requests.h), per kind,
   for all threads together. Invariants: counts are exact: a side exit of a superblock adds just the instructions
   executed before it. A thread that Valgrind stops in the middle of a call resumes its count when it continues;
   instructions of other threads meanwhile do not count. A call that never returns to its caller (longjmp, an exception)
   is not counted. Until the end of the start-up is reported, allocator.h separates the allocator's instructions from
   others; afterwards its code is in no translation, as it would cost as much as counting.

   No client request at each call: a request leaves the translated code for Valgrind's scheduler, which costs more than
   a malloc. The caller's code is marked once, and its translations do the counting. */
#pragma once

#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/tool.h"

void count_begin(void);
IRSB *count_instrument(IRSB *in, const struct translation *translation);

/* Registers code from first up to end, not yet executed. Returns False for an impossible kind or range, or if there are
   too many callers. */
Bool count_register_caller(UWord kind, Addr first, Addr end);

/* A system call begins: of the start-up, it is counted. */
void count_note_syscall(UInt number);

/* Main begins: stores the instructions so far that are not the allocator's. Returns False the second time. */
Bool count_note_loaded(void);

/* The start-up is over: stores its instructions. Returns False the second time. */
Bool count_note_started(void);

/* Another thread runs now. */
void count_switch_to(ThreadId thread);

/* A thread has ended: its number may be used again. */
void count_thread_ends(ThreadId thread);

/* In a fork's child: resets all counts. */
void count_reset(void);

/* Keys of output_counted, also in each row of "kinds"; if the end of the start-up was reported also "startup", with the
   keys of output_counted, the same of "allocator" and "loading", and those of syscalls_write: the system calls until
   main began, and the allocator's from there on. */
void count_write(VgFile *file);
