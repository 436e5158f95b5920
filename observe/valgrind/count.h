/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode count: instructions of the client, in all and by kind of call.

   Job: count what is executed below the calls that registered code makes (core/valgrind/requests.h), per kind, all
   threads together. Invariants: counts are exact: a side exit of a superblock adds just what was executed before it. A
   thread that Valgrind stops in the middle of a call takes its count up again when it goes on; what other threads
   execute meanwhile is not its. A call that never returns to its caller (longjmp, an exception) is not counted.
   Until the end of the start-up is reported, allocator.h separates the allocator's instructions from the others;
   afterwards its code is in no translation, as it would cost as much as counting.

   No client request at each call: a request leaves the translated code for Valgrind's scheduler, which costs more than
   a malloc. The caller's code is marked once, and its translations count by themselves. */
#pragma once

#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/tool.h"

void count_begin(void);
IRSB *count_instrument(IRSB *in, const struct translation *translation);

/* Of code from first up to end, not yet executed. Returns False for an impossible kind or range, or one too many. */
Bool count_register_caller(UWord kind, Addr first, Addr end);

/* Main begins: the instructions so far that are not the allocator's are kept. Returns False the second time. */
Bool count_note_loaded(void);

/* The start-up is over: its instructions are kept. Returns False the second time. */
Bool count_note_started(void);

/* Keeps what was counted by kind since the last snapshot. Returns True. */
Bool count_take_snapshot(void);

/* Of the thread that runs next. */
void count_switch_to(ThreadId thread);

/* Its number may be used again. */
void count_thread_ends(ThreadId thread);

/* In a fork's child: begins anew. */
void count_reset(void);

/* Keys "instructions", "kinds", and "snapshots" {"count", "rows": [[snapshot from 0, kind, calls, instructions], ...]},
   of each kind called between that snapshot and the one before; if the end of the start-up was reported also "startup"
   {"instructions", "allocator_instructions", "loading_instructions"}. */
void count_write(VgFile *file);
