/* Which events of simulate_events.h a superblock has; in mode replay, which accesses of the allocator's. */
#include "observe/valgrind/allocator.h"
#include "observe/valgrind/replay.h"
#include "observe/valgrind/simulate.h"
#include "observe/valgrind/simulate_events.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_machine.h>

/* A superblock under way. */
struct block {
  IRSB *in, *out;
  UInt pending; /* instructions not yet counted */
  UWord line;   /* fetched last in this superblock */
  /* Mode replay: only the allocator's accesses count. allocators: does it run? NULL: all count. */
  Bool replays;
  IRExpr *allocators;
  /* The read that a write to the same bytes by the same instruction joins: NULL if there is none. */
  IRExpr *read_address;
  Int read_bytes;
};

static void add_access(struct block *block, IRExpr *address, Int bytes, IRExpr *guard) {
  if (bytes > SIMULATED_LINE_BYTES)
    bytes = SIMULATED_LINE_BYTES;
  /* Where the access has a guard of its own, replay_access sees whose it is. */
  if (block->replays)
    call_helper_2(block->out, "replay_access", replay_access, mkIRExprVec_2(address, mkIRExpr_HWord((HWord)bytes)),
                  guard ? guard : block->allocators);
  else
    call_helper_2(block->out, "simulate_access", simulate_access, mkIRExprVec_2(address, mkIRExpr_HWord((HWord)bytes)),
                  guard);
}

static void add_read(struct block *block, IRExpr *address, Int bytes) {
  add_access(block, address, bytes, NULL);
  block->read_address = address;
  block->read_bytes = bytes;
}

static void add_write(struct block *block, IRExpr *address, Int bytes) {
  Bool joins = block->read_address && block->read_bytes == bytes && eqIRAtom(block->read_address, address);
  block->read_address = NULL;
  if (!joins)
    add_access(block, address, bytes, NULL);
}

static void add_guarded(struct block *block, IRExpr *address, Int bytes, IRExpr *guard) {
  block->read_address = NULL;
  add_access(block, address, bytes, guard);
}

static void add_fetch(struct block *block, Addr address, UInt bytes) {
  UWord first = address / SIMULATED_LINE_BYTES, last = (address + bytes - 1) / SIMULATED_LINE_BYTES;
  if (first != last)
    call_helper_2(block->out, "simulate_fetch_across", simulate_fetch_across,
                  mkIRExprVec_2(mkIRExpr_HWord(address), mkIRExpr_HWord(bytes)), NULL);
  else if (first != block->line)
    call_helper(block->out, "simulate_fetch_line", simulate_fetch_line, mkIRExpr_HWord(first), NULL);
  block->line = last;
}

static Int size_of(const struct block *block, IRExpr *expression) {
  return sizeofIRType(typeOfIRExpr(block->in->tyenv, expression));
}

static void add_dirty(struct block *block, const IRDirty *call) {
  if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
    add_read(block, call->mAddr, call->mSize);
  if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
    add_write(block, call->mAddr, call->mSize);
}

static void add_cas(struct block *block, const IRCAS *cas) {
  Int bytes = size_of(block, cas->dataLo) * (cas->dataHi ? 2 : 1);
  add_read(block, cas->addr, bytes);
  add_write(block, cas->addr, bytes);
}

static void add_guarded_load(struct block *block, const IRLoadG *load) {
  IRType result, loaded;
  typeOfIRLoadGOp(load->cvt, &result, &loaded);
  add_guarded(block, load->addr, sizeofIRType(loaded), load->guard);
}

/* The accesses of a statement, in front of it. */
static void add_accesses(struct block *block, IRStmt *statement) {
  IRExpr *data;
  switch (statement->tag) {
  case Ist_WrTmp:
    data = statement->Ist.WrTmp.data;
    if (data->tag == Iex_Load)
      add_read(block, data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty));
    break;
  case Ist_Store:
    add_write(block, statement->Ist.Store.addr, size_of(block, statement->Ist.Store.data));
    break;
  case Ist_StoreG:
    add_guarded(block, statement->Ist.StoreG.details->addr, size_of(block, statement->Ist.StoreG.details->data),
                statement->Ist.StoreG.details->guard);
    break;
  case Ist_LoadG:
    add_guarded_load(block, statement->Ist.LoadG.details);
    break;
  case Ist_Dirty:
    add_dirty(block, statement->Ist.Dirty.details);
    break;
  case Ist_CAS:
    add_cas(block, statement->Ist.CAS.details);
    break;
  default: /* x86-64 has no others that touch memory */
    break;
  }
}

static void add_statement(struct block *block, IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    if (!simulate_data_only)
      add_fetch(block, statement->Ist.IMark.addr, statement->Ist.IMark.len);
    block->pending++;
    block->read_address = NULL;
  } else if (statement->tag == Ist_Exit) {
    count_instructions(block->out, block->pending);
    block->pending = 0;
    block->read_address = NULL;
  } else {
    add_accesses(block, statement);
  }
  addStmtToIRSB(block->out, statement);
}

IRSB *simulate_instrument(IRSB *in, const struct translation *translation, Bool replays) {
  struct block block = {.in = in, .out = deepCopyIRSBExceptStmts(in), .line = ~(UWord)0, .replays = replays};
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
  count_instructions(block.out, block.pending);
  return block.out;
}
