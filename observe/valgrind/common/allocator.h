/* SPDX-License-Identifier: GPL-2.0-only */
/* Whether the allocator or the program runs.

   The allocator runs, in a thread, from the first instruction of a function of the malloc API until that call returns
   to its caller, whatever is executed meanwhile (memcpy in a realloc, a signal's handler), and in the same way from the
   first instruction of an allocator library that the thread enters (objects.h): its start-up, its threads' start and
   end. The call has ended when the stack pointer is above its value at the call's first instruction, whether the
   function returned or was left by an exception or longjmp. This is checked behind call instructions, where functions
   (setjmp among them) return to: a comparison in each superblock was a third of the cost of instrumentation. So the
   code between an exception's handler and the next return is still the allocator's. A signal's handler on a separate
   stack, which may be at higher addresses, does not end the call; nor does such a handler, ever, if it is itself left
   by longjmp. Invariant: at any moment the thread that runs is on one side. */
#pragma once

#include "observe/valgrind/common/tool.h"

/* 1 while the allocator runs, else 0. */
extern UWord allocator_runs;

/* While it runs: the stack pointer when it began, where the return address is; all ones where that is not known. */
extern Addr allocator_left_above;

void allocator_begin(void);

/* settle is called before each change of sides or threads, and before instructions are counted: for a mode that counts
   instructions later than they are executed. */
void allocator_before_switches(void (*settle)(void));

/* Adds, at the start of a superblock's translation, the code that notices when the allocator begins or stops
   running. */
void allocator_instrument(IRSB *into, const struct translation *translation);

/* For a mode that knows by itself when the allocator begins and stops running: the same, in the running thread, and may
   a call return to that address, so that the stack pointer has to be compared there? */
void allocator_enter(Addr stack_pointer);
void allocator_leave(void);
Bool allocator_may_end_at(Addr address);

/* In the running thread a signal's handler begins, on a separate stack or not, or has returned. */
void allocator_signal_begins(Bool other_stack);
void allocator_signal_ends(void);

/* Another thread runs now; a thread has ended, and its number may be used again. */
void allocator_switch_to(ThreadId thread);
void allocator_thread_ends(ThreadId thread);

/* The stack pointer at the call of the function in which the allocator runs. Only while it runs. */
Addr allocator_stack_pointer(void);

/* What was executed while the allocator ran. */
struct counted allocator_counted(void);

/* In a fork's child: resets the count, and `executed`. */
void allocator_reset(void);
