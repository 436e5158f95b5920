/* SPDX-License-Identifier: GPL-2.0-only */
/* The recorder, for a program into which libheaptape.so can't be loaded: attaches to it and writes the records of
   calls, as libheaptape.so does (capture/wire/ring.h).

   Job: the socket, shared memory, a ring for each thread, waiting for room in it. Invariants: a process attaches at its
   first call, a fork's child likewise; every step is stamped. If the recorder has ended, the program continues. A ring
   holds the records from tail to `at`: one slot is always free, and a JUMP leads from the last one to the first. */
#pragma once

#include "capture/wire/ring.h"
#include "observe/valgrind/common/tool.h"

/* Is the running thread's next call to be recorded? Attaches; counts a call made in a pause. */
Bool rings_take_call(ThreadId thread);

/* Writes a record of a call that rings_take_call has taken, in that thread. */
void rings_put(ThreadId thread, ULong head, ULong word);

/* The time of a step, on the recording's clock. */
ULong rings_stamp(void);

/* The allocator has made a call inside another one; a call that no record can hold was made instead of one taken. */
void rings_count_nested(ThreadId thread);
void rings_count_dropped(ThreadId thread);

void rings_thread_ends(ThreadId thread);

/* In a fork's child, which is another process for the recorder. */
void rings_forget(void);
