/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode calls: records the calls of a static program's allocator, whose functions the recorder has found by their
   symbols (capture/wire/linked.h).

   Job: when such a function is called and returns, in any thread, and the records of that call. Of nested calls only
   the outermost is recorded, as by libheaptape.so; calls by a signal's handler inside a call count as nested. A
   function that is left by an exception has acquired nothing; so has an operator that calls a new-handler which calls
   the allocator, whose own next call is an event. */
#include "capture/wire/linked.h"
#include "core/system/valgrind_requests.h"
#include "core/trace/event.h"
#include "observe/valgrind/calls/rings.h"
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/mode.h"

#include <pub_tool_libcbase.h>
#include <string.h>
#define strcmp VG_(strcmp) /* in control_names.h: there is no C library */
#define strlen VG_(strlen)
#include "core/trace/control_names.h"
#undef strcmp
#undef strlen

#include <libvex_guest_amd64.h>
#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_machine.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_options.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_vki.h>
#include <stddef.h>

/* calls.def's columns. */
static const struct {
  Bool has_size, has_param;
} properties[CALL_LIMIT] = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = {size, param != NONE},
#include "core/trace/calls.def"
};

static struct linked_list list;
static Addr list_begins; /* where the file's first byte would be, if it were mapped with its functions */

/* The outermost call of a thread. */
struct call {
  const struct linked_function *function; /* NULL: it is not recorded */
  Addr stack, returns_to;
  UWord object, size, param, result_at;
  UChar op, kind;
  struct mallctl_passed passed; /* of a mallctl, whose option is param; of LINKED_LOOK_UP: the mib, its parts */
};
static struct call *calls;

/* The mibs that the program has looked up. */
static struct { UWord option, parts, part[MIB_PARTS_MOST]; } mibs[MALLCTL_NAMES_MOST];
static UInt mib_count;

/* 0: it was not looked up, or is another than control_names.def's. */
static UWord option_of_mib(const UWord *mib, UWord parts) {
  for (UInt i = 0; i < mib_count; i++) {
    const struct control_name *name = control_name_of(mibs[i].option);
    UWord any = control_index_part(name->name), part = 0;
    while (parts == mibs[i].parts && part < parts && (part == any || mibs[i].part[part] == mib[part]))
      part++;
    if (part == parts && parts)
      return control_option(name, any < parts && mib[any] < CONTROL_INDEX_LIMIT ? mib[any] : 0);
  }
  return 0;
}

static void remember_mib(const struct call *call) {
  UWord parts = *(const UWord *)call->passed.value;
  Bool fits = parts <= MIB_PARTS_MOST && mib_count < MALLCTL_NAMES_MOST;
  if (!call->param || !fits || option_of_mib(call->passed.old, parts))
    return;
  mibs[mib_count].option = call->param;
  mibs[mib_count].parts = parts;
  VG_(memcpy)(mibs[mib_count++].part, call->passed.old, parts * sizeof(UWord));
}

static const HChar *functions; /* option --functions= */

/* Reads the list of functions. False: it can't be read. */
static Bool read_list(const HChar *path) {
  SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
  if (sr_isError(opened))
    return False;
  Int got = VG_(read)((Int)sr_Res(opened), &list, sizeof list);
  VG_(close)((Int)sr_Res(opened));
  calls = VG_(calloc)("calls.calls", VG_N_THREADS, sizeof *calls);
  return got == sizeof list && list.count <= LINKED_MOST;
}

/* The function that begins at the address; NULL: none. */
static const struct linked_listed *find(Addr address) {
  const NSegment *segment = VG_(am_find_nsegment)(address);
  if (!segment || segment->kind != SkFileC || segment->dev != list.device || segment->ino != list.inode)
    return NULL;
  ULong offset = address - segment->start + (ULong)segment->offset;
  list_begins = address - offset;
  for (UInt number = 0; number < list.count; number++)
    if (list.at[number].file_offset == offset)
      return &list.at[number];
  return NULL;
}

static UWord product(UWord size, UWord count) {
  UWord bytes;
  return __builtin_mul_overflow(size, count, &bytes) ? ~(UWord)0 : bytes;
}

/* jemalloc's flags: the alignment's logarithm, and whether the object is zeroed. */
static void apply_flags(struct call *call) {
  enum { ALIGN_MASK = 63, ZERO = 64 };
  UWord alignment = call->param & ALIGN_MASK;
  if (call->op == CALL_free_sized && alignment)
    call->op = CALL_free_aligned_sized;
  else if (call->op == CALL_malloc && (alignment || call->param & ZERO))
    call->op = alignment ? CALL_memalign : CALL_calloc;
  call->param = (UWord)1 << alignment;
}

/* A control call's value and option, as calls.def has them. */
static void narrow(struct call *call) {
  switch (call->function->style) {
  case LINKED_INT:
    call->size = (UInt)call->size;
    break;
  case LINKED_LONG:
    call->size = call->size << 1 >> 1;
    break;
  case LINKED_BOOL:
    call->size = (call->size & 0xff) != 0;
    break;
  case LINKED_TRUE:
    call->size = 1;
    break;
  }
  call->param = call->function->param == LINKED_NONE ? 0 : (UInt)call->param;
}

static void put_step(const struct call *call, UWord address, UWord size) {
  ThreadId thread = VG_(get_running_tid)();
  UInt id = call->op & CALL_ID_MASK;
  ULong stamp = rings_stamp();
  if (properties[id].has_param)
    rings_put(thread, RECORD_PARAM, call->param);
  if (properties[id].has_size)
    rings_put(thread, RECORD_STAMP, stamp);
  rings_put(thread, call->op | address << 8, properties[id].has_size ? size : stamp);
}

/* Where a superblock begins, the registers are in the guest's state. */
static void describe(struct call *call, ThreadId thread) {
  static const Int registers[] = {offsetof(VexGuestAMD64State, guest_RDI), offsetof(VexGuestAMD64State, guest_RSI),
                                  offsetof(VexGuestAMD64State, guest_RDX), offsetof(VexGuestAMD64State, guest_RCX),
                                  offsetof(VexGuestAMD64State, guest_R8),  offsetof(VexGuestAMD64State, guest_R9)};
  const struct linked_function *function = call->function;
  UWord parameters[sizeof registers / sizeof *registers];
  for (UInt number = 0; number < sizeof registers / sizeof *registers; number++)
    VG_(get_shadow_regs_area)
  (thread, (UChar *)&parameters[number], 0, registers[number], sizeof *parameters);
  call->object = function->object == LINKED_NONE ? 0 : parameters[function->object];
  call->size = function->size == LINKED_NONE ? 0 : parameters[function->size];
  call->param = function->param == LINKED_NONE ? 1 : parameters[function->param]; /* 1: a count that is not given */
  if (function->count != LINKED_NONE)
    call->size = product(call->size, parameters[function->count]);
  call->result_at = parameters[0];
  call->op = function->call;
  if (function->style == LINKED_FLAGS)
    apply_flags(call);
  Bool by_mib = function->style == LINKED_MALLCTL_MIB;
  if (by_mib || function->style == LINKED_MALLCTL || function->kind == LINKED_LOOK_UP) {
    call->param = by_mib ? option_of_mib((const UWord *)parameters[0], parameters[1])
                         : control_option_named(MALLCTL, (const char *)parameters[0]);
    const UWord *passed = &parameters[by_mib ? 2 : 1];
    UWord value = function->kind == LINKED_LOOK_UP ? passed[1] : passed[2];
    call->passed = (struct mallctl_passed){(const void *)passed[0], (const void *)value, passed[3]};
  } else if (function->kind == LINKED_CONTROL) {
    narrow(call);
  }
}

/* Is it known only at the call's end what it was? */
static Bool ends_by_itself(const struct linked_function *function) {
  return function->style == LINKED_MALLCTL || function->style == LINKED_MALLCTL_MIB || function->kind == LINKED_LOOK_UP;
}

/* The end of a call. result 0: it has acquired nothing. */
static void finish(struct call *call, UWord result) {
  allocator_leave();
  if (!call->function)
    return;
  if (ends_by_itself(call->function)) {
    call->function = NULL;
    return;
  }
  call->op |= result ? 0 : CALL_NULL_OUT;
  put_step(call, result, call->size);
  call->function = NULL;
}

/* Is that call, from inside another, the program's own? Those of an operator are where it is not called by the
   allocator's functions or operators: it throws an exception, whose object takes memory, or calls a new-handler. So are
   those of a control call: malloc_info's file takes a buffer. A tail call has the stack pointer of its caller. */
static Bool is_programs(const struct call *outer, Addr stack) {
  Bool may = outer->kind == LINKED_NEW || outer->kind == LINKED_DELETE || outer->kind == LINKED_CONTROL;
  if (!may || stack == outer->stack)
    return False;
  ULong offset = *(const Addr *)stack - list_begins;
  for (UInt number = 0; number < list.count; number++)
    if (offset - list.at[number].file_offset < list.at[number].bytes)
      return False;
  return True;
}

/* At the function's first instruction, where the stack pointer is at the return address. */
static void begin(const struct linked_listed *listed, Addr stack) {
  ThreadId thread = VG_(get_running_tid)();
  struct call *call = &calls[thread];
  UChar kind = listed->function.kind;
  if (allocator_runs && !is_programs(call, stack)) {
    rings_count_nested(thread);
    return;
  }
  if (allocator_runs)
    finish(call, 0);
  allocator_enter(stack);
  *call = (struct call){.stack = stack, .returns_to = *(const Addr *)stack, .kind = kind};
  if (kind == LINKED_INNER || !rings_take_call(thread))
    return;
  if (kind == LINKED_OTHER) {
    rings_count_dropped(thread);
    return;
  }
  call->function = &listed->function;
  describe(call, thread);
  if (kind == LINKED_RELEASE || kind == LINKED_DELETE || kind == LINKED_TOUCH) {
    call->op |= call->object ? 0 : CALL_NULL_IN;
    put_step(call, call->object, call->size);
    call->function = NULL;
  } else if (kind == LINKED_CONTROL && !ends_by_itself(call->function)) {
    put_step(call, 0, call->size);
    call->function = NULL;
  } else if (kind == LINKED_RESIZE) {
    call->op |= call->object ? 0 : CALL_NULL_IN;
    if (call->object)
      rings_put(thread, RECORD_BEGIN | call->object << 8, rings_stamp());
  }
}

/* At an address to which a call may return, with the stack pointer above the outermost call's. */
static void end(Addr address, Addr stack, UWord result) {
  struct call *call = &calls[VG_(get_running_tid)()];
  uint64_t size_bytes;
  if (address != call->returns_to || stack != call->stack + sizeof stack)
    result = 0;
  else if (call->function && call->kind == LINKED_LOOK_UP && !(UInt)result)
    remember_mib(call);
  else if (call->function && ends_by_itself(call->function) && !(UInt)result &&
           control_mallctl(call->param, &call->passed, &size_bytes))
    put_step(call, 0, size_bytes);
  else if (call->function && call->kind == LINKED_RESULT)
    result = (UInt)result ? 0 : *(const UWord *)call->result_at;
  finish(call, result);
}

static IRSB *instrument(IRSB *in, const struct translation *translation) {
  IRSB *out = deepCopyIRSBExceptStmts(in);
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(out, in->stmts[index]);
  IRExpr *stack = stack_pointer(out, translation->layout);
  const struct linked_listed *listed = find(translation->address);
  if (allocator_may_end_at(translation->address)) {
    IRExpr *result = keep(out, Ity_I64, IRExpr_Get(offsetof(VexGuestAMD64State, guest_RAX), Ity_I64));
    call_helper(out, "end", end, mkIRExprVec_3(mkIRExpr_HWord(translation->address), stack, result),
                word_below(out, &allocator_left_above, stack));
  }
  if (listed)
    call_helper(out, "begin", begin, mkIRExprVec_2(mkIRExpr_HWord((HWord)listed), stack), NULL);
  for (; index < in->stmts_used; index++)
    addStmtToIRSB(out, in->stmts[index]);
  return out;
}

static Bool take_option(const HChar *option) {
  return VG_STR_CLO(option, "--functions", functions);
}

static const HChar *begin_mode(void) {
  return functions && read_list(functions) ? NULL
                                           : "--functions: mode calls needs a list of functions that can be read";
}

static UWord answer(UWord request, const UWord *arguments) {
  return request == VALGRIND_REQUEST_RECORDING && arguments[0] == RECORDING_IS_POSSIBLE;
}

static const struct mode mode_calls = {
    .name = "calls",
    .summary = "none, a static program's calls go to the recorder",
    .options = "    --functions=F                    mode calls: the functions of the program's allocator\n",
    .take_option = take_option,
    .begin = begin_mode,
    .instrument = instrument,
    .thread_ends = rings_thread_ends,
    .in_fork_child = rings_forget,
    .answer = answer};
REGISTER_MODE(mode_calls);
