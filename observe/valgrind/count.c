/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/count.h"

#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/instrument.h"
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

void count_begin(void) {
  calls_by_thread = VG_(calloc)("count.calls", VG_N_THREADS, sizeof *calls_by_thread);
  allocator_begin();
}

void count_reset(void) {
  current.counted = (struct counted){0};
  VG_(memset)(kinds, 0, sizeof kinds);
  VG_(memset)(&startup, 0, sizeof startup);
  allocator_reset();
  syscalls_reset();
}

/* Until main begins of all code, later of the allocator, as with instructions. */
void count_note_syscall(UInt number) {
  if (!startup.over && (!startup.loaded || allocator_runs))
    syscalls_count(number, 0);
}

Bool count_note_loaded(void) {
  if (startup.loaded || startup.over)
    return False;
  startup.loaded = True;
  startup.loading = counted_since(counted_now(), allocator_counted());
  return True;
}

Bool count_note_started(void) {
  if (startup.over)
    return False;
  startup.over = True;
  startup.all = counted_now();
  startup.allocator = allocator_counted();
  VG_(discard_translations_safely)(0, ADDRESS_SPACE_BYTES, "heaptape startup");
  return True;
}

Bool count_register_caller(UWord kind, Addr first, Addr end) {
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

void count_switch_to(ThreadId thread) {
  if (thread == current_thread)
    return;
  allocator_switch_to(thread);
  if (current_thread != VG_INVALID_THREADID) {
    current.counted = counted_since(counted_now(), current.counted);
    calls_by_thread[current_thread] = current;
  }
  current = calls_by_thread[thread];
  current.counted = counted_since(counted_now(), current.counted);
  current_thread = thread;
}

/* A thread's number is used again after its end. */
void count_thread_ends(ThreadId thread) {
  allocator_thread_ends(thread);
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
IRSB *count_instrument(IRSB *in, const struct translation *translation) {
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

void count_write(VgFile *file) {
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
