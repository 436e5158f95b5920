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
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/instrument.h"
#include "observe/valgrind/common/mode.h"
#include "observe/valgrind/common/output.h"
#include "observe/valgrind/common/syscalls.h"

#include "core/system/valgrind_requests.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_threadstate.h>
#include <pub_tool_transtab.h>

static const ULong ADDRESS_SPACE_BYTES = 1ull << 47;

struct caller {
  UWord kind;
  Addr first, end;
};

/* A call under way. counted: if the thread runs, the counts when the call began; else what the call has executed. */
struct call {
  UWord active; /* 0 or 1; a word, for tests by translated code */
  UWord kind;
  struct counted counted;
};

static struct caller callers[VALGRIND_KIND_LIMIT];
static UInt caller_count;
static Addr callers_first = ~0ul, callers_end;

static struct call current, *calls_by_thread;
static ThreadId current_thread;

struct kind_count {
  ULong calls;
  struct counted counted;
};

static struct kind_count kinds[VALGRIND_KIND_LIMIT];

static struct {
  Bool loaded, over;
  struct counted all, allocator, loading;
} startup;

static const HChar *begin(void) {
  calls_by_thread = VG_(calloc)("count.calls", VG_N_THREADS, sizeof *calls_by_thread);
  return NULL;
}

static void reset(void) {
  current.counted = (struct counted){0};
  VG_(memset)(kinds, 0, sizeof kinds);
  VG_(memset)(&startup, 0, sizeof startup);
  allocator_reset();
  syscalls_reset();
}

/* Until main begins of all code, later of the allocator, as with instructions. */
static void note_syscall(UInt number) {
  if (!startup.over && (!startup.loaded || allocator_runs))
    syscalls_count(number, 0);
}

/* Main begins: stores the instructions so far that are not the allocator's. Returns False the second time. */
static Bool note_loaded(void) {
  if (startup.loaded || startup.over)
    return False;
  startup.loaded = True;
  startup.loading = counted_since(counted_now(), allocator_counted());
  return True;
}

/* The start-up is over: stores its instructions. Returns False the second time. */
static Bool note_started(void) {
  if (startup.over)
    return False;
  startup.over = True;
  startup.all = counted_now();
  startup.allocator = allocator_counted();
  VG_(discard_translations_safely)(0, ADDRESS_SPACE_BYTES, "heaptape startup");
  return True;
}

/* Registers code from first up to end, not yet executed. Returns False for an impossible kind or range, or if there are
   too many callers. */
static Bool register_caller(UWord kind, Addr first, Addr end) {
  if (kind >= VALGRIND_KIND_LIMIT || first >= end || caller_count == VALGRIND_KIND_LIMIT)
    return False;
  callers[caller_count++] = (struct caller){kind, first, end};
  if (first < callers_first)
    callers_first = first;
  if (end > callers_end)
    callers_end = end;
  VG_(discard_translations_safely)(first, end - first, "heaptape caller");
  return True;
}

static const struct caller *find_caller(Addr address) {
  if (address < callers_first || address >= callers_end)
    return NULL;
  for (UInt index = 0; index < caller_count; index++)
    if (address >= callers[index].first && address < callers[index].end)
      return &callers[index];
  return NULL;
}

static void switch_to(ThreadId thread) {
  if (thread == current_thread)
    return;
  if (current_thread != VG_INVALID_THREADID) {
    current.counted = counted_since(counted_now(), current.counted);
    calls_by_thread[current_thread] = current;
  }
  current = calls_by_thread[thread];
  current.counted = counted_since(counted_now(), current.counted);
  current_thread = thread;
}

/* A thread's number is used again after its end. */
static void thread_ends(ThreadId thread) {
  if (thread == current_thread)
    current.active = 0;
  else
    calls_by_thread[thread].active = 0;
}

static VG_REGPARM(1) void call_begins(UWord kind) {
  current = (struct call){1, kind, counted_now()};
}

static VG_REGPARM(1) void call_returned(UWord kind) {
  current.active = 0;
  if (current.kind != kind)
    return;
  kinds[kind].calls++;
  kinds[kind].counted = counted_sum(kinds[kind].counted, counted_since(counted_now(), current.counted));
}

/* Superblocks do not cross calls (main.c). So if one begins in a caller's code, not at its first instruction, while a
   call is under way, that call has returned there. */
static IRSB *instrument(IRSB *in, const struct translation *translation) {
  IRSB *out = deepCopyIRSBExceptStmts(in);
  const struct caller *caller = find_caller(translation->address);
  struct counting counting = {0};
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(out, in->stmts[index]);
  if (!startup.over)
    allocator_instrument(out, translation);
  if (caller && translation->address != caller->first)
    call_helper(out, "call_returned", call_returned, mkIRExprVec_1(mkIRExpr_HWord(caller->kind)),
                word_equals(out, &current.active, 1));
  for (; index < in->stmts_used; index++) {
    counting_statement(&counting, out, in->stmts[index]);
    addStmtToIRSB(out, in->stmts[index]);
  }
  counting_end(&counting, out);
  if (caller && in->jumpkind == Ijk_Call)
    call_helper(out, "call_begins", call_begins, mkIRExprVec_1(mkIRExpr_HWord(caller->kind)), NULL);
  return out;
}

/* Keys of output_counted, also in each row of "kinds"; if the end of the start-up was reported also "startup", with the
   keys of output_counted, the same of "allocator" and "loading", and those of syscalls_write: the system calls until
   main began, and the allocator's from there on. */
static void write(VgFile *file) {
  VG_(fprintf)(file, ", ");
  output_counted(file, counted_now());
  VG_(fprintf)(file, ", \"kinds\": [");
  const HChar *separator = "";
  for (UInt kind = 0; kind < VALGRIND_KIND_LIMIT; kind++) {
    if (kinds[kind].calls == 0)
      continue;
    VG_(fprintf)
    (file, "%s{\"kind\": %u, \"calls\": %llu, ", separator, kind, kinds[kind].calls);
    output_counted(file, kinds[kind].counted);
    VG_(fprintf)(file, "}");
    separator = ", ";
  }
  VG_(fprintf)(file, "]");
  if (!startup.over)
    return;
  VG_(fprintf)(file, ", \"startup\": {");
  output_counted(file, startup.all);
  VG_(fprintf)(file, ", \"allocator\": {");
  output_counted(file, startup.allocator);
  VG_(fprintf)(file, "}, \"loading\": {");
  output_counted(file, startup.loading);
  VG_(fprintf)(file, "}, ");
  syscalls_write(file, 0);
  VG_(fprintf)(file, "}");
}

static UWord answer(UWord request, const UWord *arguments) {
  switch (request) {
  case VALGRIND_REQUEST_CALLER:
    return register_caller(arguments[0], arguments[1], arguments[2]);
  case VALGRIND_REQUEST_STARTED:
    return note_started();
  case VALGRIND_REQUEST_LOADED:
    return note_loaded();
  default:
    return 0;
  }
}

const struct mode mode_count = {.name = "count",
                                .summary = "instructions by kind of call",
                                .begin = begin,
                                .instrument = instrument,
                                .write = write,
                                .runs = switch_to,
                                .thread_ends = thread_ends,
                                .in_fork_child = reset,
                                .answer = answer,
                                .syscall = note_syscall};
REGISTER_MODE(mode_count);
