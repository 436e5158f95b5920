/* SPDX-License-Identifier: GPL-2.0-only */
/* The events of simulate_events.h that a superblock has; in mode replay, its accesses by the allocator. */
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/instrument.h"
#include "observe/valgrind/simulate/replay.h"
#include "observe/valgrind/simulate/simulate.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_machine.h>

/* A superblock under way. */
struct block {
  IRSB *out;
  struct counting counting;
  UWord line; /* the last one fetched in this superblock */
  /* Mode replay: only the allocator's accesses count. allocators: does it run? NULL: all count. */
  Bool replays;
  IRExpr *allocators;
  struct data_accesses accesses;
};

static void add_access(void *context, const struct data_access *access) {
  struct block *block = context;
  IRExpr *guard = access->is_helpers ? NULL : access->guard;
  Int bytes = access->bytes < SIMULATED_LINE_BYTES ? access->bytes : SIMULATED_LINE_BYTES;
  IRExpr **arguments = mkIRExprVec_2(access->address, mkIRExpr_HWord((HWord)bytes));
  /* Where the access has its own guard, replay_access checks whose it is. */
  if (block->replays)
    call_helper(block->out, "replay_access", replay_access, arguments, guard ? guard : block->allocators);
  else
    call_helper(block->out, "simulate_access", simulate_access, arguments, guard);
}

static void add_fetch(struct block *block, Addr address, UInt bytes) {
  UWord first = address / SIMULATED_LINE_BYTES, last = (address + bytes - 1) / SIMULATED_LINE_BYTES;
  if (first != last)
    call_helper(block->out, "simulate_fetch_across", simulate_fetch_across,
                mkIRExprVec_2(mkIRExpr_HWord(address), mkIRExpr_HWord(bytes)), NULL);
  else if (first != block->line)
    call_helper(block->out, "simulate_fetch_line", simulate_fetch_line, mkIRExprVec_1(mkIRExpr_HWord(first)), NULL);
  block->line = last;
}

static void add_statement(struct block *block, IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    if (!simulate_data_only)
      add_fetch(block, statement->Ist.IMark.addr, statement->Ist.IMark.len);
    data_accesses_break(&block->accesses);
  } else if (statement->tag == Ist_Exit) {
    data_accesses_break(&block->accesses);
  } else {
    data_accesses_of(&block->accesses, statement);
  }
  counting_statement(&block->counting, block->out, statement);
  addStmtToIRSB(block->out, statement);
}

IRSB *simulate_instrument(IRSB *in, const struct translation *translation, Bool replays) {
  struct block block = {.out = deepCopyIRSBExceptStmts(in), .line = ~(UWord)0, .replays = replays};
  block.accesses = (struct data_accesses){.in = in, .add = add_access, .context = &block};
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(block.out, in->stmts[index]);
  allocator_instrument(block.out, translation);
  if (replays) {
    replay_instrument(block.out, translation);
    block.allocators = replay_counts_all() ? NULL : word_equals(block.out, &allocator_runs, 1);
  }
  for (; index < in->stmts_used; index++)
    add_statement(&block, in->stmts[index]);
  counting_end(&block.counting, block.out);
  return block.out;
}
