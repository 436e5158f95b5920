/* SPDX-License-Identifier: GPL-2.0-only */
/* When does the allocator run, and when the program?

   The allocator runs, in a thread, from the first instruction of a function of the malloc API until that call returns
   to its caller, whatever is executed meanwhile (memcpy in a realloc, a signal's handler), and likewise from the first
   instruction of an allocator library that the thread gets into (objects.h): its start-up, its threads' start and end.
   The call has ended when the stack pointer is above where it was at the call's first instruction, whether the function
   returned or was left by an exception or longjmp. That is looked at behind call instructions, where functions (setjmp
   among them) return to: a comparison in each superblock was a third of what instrumentation cost. So the code between
   an exception's handler and the next return is still the allocator's. A signal's handler on a stack of its own, which
   may lie above, does not end it; one that is itself left by longjmp does not either, for good. Invariant: at any
   moment the thread that runs is on one side. */
#pragma once

#include "observe/valgrind/common/tool.h"

/* 1 while the allocator runs, else 0. */
extern UWord allocator_runs;

/* While it runs: the stack pointer when it began, where the return address lies; all ones where that is not known. */
extern Addr allocator_left_above;

void allocator_begin(void);

/* settle is called before each change of sides or threads, and before instructions are counted: for a mode that counts
   instructions later than they are executed. */
void allocator_before_switches(void (*settle)(void));

/* At the start of the translation of a superblock: what notices that the allocator begins or ends to run. */
void allocator_instrument(IRSB *into, const struct translation *translation);

/* Of the running thread: a signal's handler begins, on a stack of its own or not, or has returned. */
void allocator_signal_begins(Bool other_stack);
void allocator_signal_ends(void);

/* Of the thread that runs next; and of one whose number may be used again. */
void allocator_switch_to(ThreadId thread);
void allocator_thread_ends(ThreadId thread);

/* The stack pointer when the function was called in which the allocator runs. Only while it runs. */
Addr allocator_stack_pointer(void);

/* Instructions that were executed while it ran. */
ULong allocator_instructions(void);

/* In a fork's child: the count begins anew, with instructions_executed. */
void allocator_reset(void);
