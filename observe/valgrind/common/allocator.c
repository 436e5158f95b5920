/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/common/allocator.h"

#include "observe/valgrind/common/objects.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_machine.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>

/* The side of a thread that is not running; that of the running one is in the globals, which translated code reads. */
struct side {
  UWord runs;
  Addr left_above;  /* the call has been left when the stack pointer is above this; NOT_LEFT: this does not show it */
  Addr interrupted; /* left_above of the call that a handler on a separate stack has interrupted, else NOT_LEFT */
};

#define NOT_LEFT (~(Addr)0)

UWord allocator_runs;
Addr allocator_left_above = NOT_LEFT;
static Addr interrupted = NOT_LEFT;

static struct side *sides_by_thread;
static ThreadId current_thread;

/* Of the allocator, up to counted_to; since then the side has not changed. */
static struct counted allocators, counted_to;

static const struct side program_side = {0, NOT_LEFT, NOT_LEFT};

void allocator_begin(void) {
  sides_by_thread = VG_(malloc)("allocator.sides", VG_N_THREADS * sizeof *sides_by_thread);
  for (UInt thread = 0; thread < VG_N_THREADS; thread++)
    sides_by_thread[thread] = program_side;
}

static void (*settle)(void);

void allocator_before_switches(void (*function)(void)) {
  settle = function;
}

Addr allocator_stack_pointer(void) {
  return allocator_left_above == NOT_LEFT ? interrupted : allocator_left_above;
}

static void count(void) {
  if (settle)
    settle();
  struct counted now = counted_now();
  if (allocator_runs)
    allocators = counted_sum(allocators, counted_since(now, counted_to));
  counted_to = now;
}

struct counted allocator_counted(void) {
  count();
  return allocators;
}

void allocator_reset(void) {
  executed = (struct executed){0};
  allocators = counted_to = counted_now();
}

static void set_side(const struct side *side) {
  count();
  allocator_runs = side->runs;
  allocator_left_above = side->left_above;
  interrupted = side->interrupted;
}

void allocator_switch_to(ThreadId thread) {
  if (thread == current_thread)
    return;
  if (current_thread != VG_INVALID_THREADID)
    sides_by_thread[current_thread] = (struct side){allocator_runs, allocator_left_above, interrupted};
  set_side(&sides_by_thread[thread]);
  current_thread = thread;
}

void allocator_thread_ends(ThreadId thread) {
  sides_by_thread[thread] = program_side;
  if (thread == current_thread)
    set_side(&program_side);
}

/* The stack pointer of a handler on another stack does not show whether the call that it interrupted was left. */
void allocator_signal_begins(Bool other_stack) {
  if (!other_stack || allocator_left_above == NOT_LEFT)
    return;
  interrupted = allocator_left_above;
  allocator_left_above = NOT_LEFT;
}

void allocator_signal_ends(void) {
  if (interrupted == NOT_LEFT)
    return;
  allocator_left_above = interrupted;
  interrupted = NOT_LEFT;
}

/* On amd64 the stack pointer is at the return address when a function begins, and above it when the function has
   returned, or was left by an exception or longjmp. */
void allocator_enter(Addr stack_pointer) {
  if (!allocator_runs)
    set_side(&(struct side){1, stack_pointer, NOT_LEFT});
}

void allocator_leave(void) {
  set_side(&program_side);
}

/* May a call instruction end at the address, so that a call returns to it? Checks the code as it is now, even if it is
   overwritten later (by a compiler at run time). Where the bytes before may not be mapped, the answer is yes. */
Bool allocator_may_end_at(Addr address) {
  enum { LONGEST = 7, DIRECT = 5, OS_PAGE = 4096 };
  const UChar *at = (const UChar *)address;
  if (address % OS_PAGE < LONGEST)
    return True;
  if (at[-DIRECT] == 0xe8)
    return True;
  for (Int length = 2; length <= LONGEST; length++)
    if (at[-length] == 0xff && (at[1 - length] >> 3 & 7) == 2)
      return True;
  return False;
}

/* Superblocks do not cross calls (main.c): functions begin, and calls return, where a superblock begins. */
void allocator_instrument(IRSB *into, const struct translation *translation) {
  IRExpr *stack = stack_pointer(into, translation->layout);
  enum object_code code = objects_code_at(translation->address);
  if (allocator_may_end_at(translation->address))
    call_helper(into, "allocator_leave", allocator_leave, mkIRExprVec_0(),
                word_below(into, &allocator_left_above, stack));
  if (code == CODE_IS_API_FUNCTION || code == CODE_IS_ALLOCATORS)
    call_helper(into, "allocator_enter", allocator_enter, mkIRExprVec_1(stack), word_equals(into, &allocator_runs, 0));
}
