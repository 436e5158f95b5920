#include "observe/valgrind/allocator.h"

#include "observe/valgrind/objects.h"

#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>

/* Of a thread that is not running; the running one's is in the globals, which translated code reads. */
struct side {
  UWord runs;
  Addr return_address, stack_pointer;
};

UWord allocator_runs;
static Addr return_address; /* 0: the allocator does not run, so nothing is waited for */
static Addr entry_stack_pointer;

static struct side *sides_by_thread;
static ThreadId current_thread;

/* instructions: while the allocator ran, up to counted_to; since then the side has not changed. */
static ULong instructions, counted_to;

void allocator_begin(void) {
  sides_by_thread = VG_(calloc)("allocator.sides", VG_N_THREADS, sizeof *sides_by_thread);
}

static void (*settle)(void);

void allocator_before_switches(void (*function)(void)) {
  settle = function;
}

Addr allocator_stack_pointer(void) {
  return entry_stack_pointer;
}

static void count(void) {
  if (settle)
    settle();
  if (allocator_runs)
    instructions += instructions_executed - counted_to;
  counted_to = instructions_executed;
}

ULong allocator_instructions(void) {
  count();
  return instructions;
}

void allocator_reset(void) {
  instructions = 0;
  counted_to = instructions_executed;
}

static void set_side(const struct side *side) {
  count();
  allocator_runs = side->runs;
  return_address = side->return_address;
  entry_stack_pointer = side->stack_pointer;
}

void allocator_switch_to(ThreadId thread) {
  if (thread == current_thread)
    return;
  if (current_thread != VG_INVALID_THREADID)
    sides_by_thread[current_thread] = (struct side){allocator_runs, return_address, entry_stack_pointer};
  set_side(&sides_by_thread[thread]);
  current_thread = thread;
}

void allocator_thread_ends(ThreadId thread) {
  static const struct side program;
  sides_by_thread[thread] = program;
  if (thread == current_thread)
    set_side(&program);
}

/* On amd64 the return address lies at the stack pointer when a function begins. A caller that is further up the stack
   than the one that is waited for means that the latter's call was left some other way. */
static VG_REGPARM(1) void enter(Addr stack_pointer) {
  if (allocator_runs && stack_pointer <= entry_stack_pointer)
    return;
  set_side(&(struct side){1, *(const Addr *)stack_pointer, stack_pointer});
}

static VG_REGPARM(1) void leave(Addr stack_pointer) {
  static const struct side program;
  if (stack_pointer > entry_stack_pointer)
    set_side(&program);
}

/* Superblocks do not cross calls (main.c): functions begin, and calls return, where a superblock begins. */
void allocator_instrument(IRSB *into, const struct translation *translation) {
  IRExpr *returns = word_equals(into, &return_address, translation->address);
  call_helper(into, "leave", leave, stack_pointer(into, translation->layout), returns);
  enum object_code code = objects_code_at(translation->address);
  if (code == CODE_IS_API_FUNCTION)
    call_helper(into, "enter", enter, stack_pointer(into, translation->layout), NULL);
  else if (code == CODE_IS_ALLOCATORS)
    call_helper(into, "enter", enter, stack_pointer(into, translation->layout), word_equals(into, &allocator_runs, 0));
}
