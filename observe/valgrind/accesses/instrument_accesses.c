/* SPDX-License-Identifier: GPL-2.0-only */
/* The code that translated code gets to write to the buffer of accesses.h. */
#include "observe/valgrind/accesses/accesses.h"
#include "observe/valgrind/common/allocator.h"
#include "observe/valgrind/common/instrument.h"
#include "observe/valgrind/common/objects.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_machine.h>

/* A superblock under way. */
struct block {
  IRSB *out;
  Int state;       /* offset of the word PENDING_STATE */
  IRExpr *end;     /* the buffer's bytes in use when the superblock began */
  UInt accesses;   /* written since */
  IRConst *codes;  /* of the last PENDING_CODES accesses; filled in one by one */
  IRExpr *code_at; /* end / sizeof(UWord) */
  /* Counts since the last exit. */
  UInt instructions, new_accesses;
  struct string_walk string;
  struct data_accesses walk;
};

static IRExpr *add(struct block *block, IRExpr *left, UWord right) {
  return keep(block->out, Ity_I64, IRExpr_Binop(Iop_Add64, left, mkIRExpr_HWord(right)));
}

static IRExpr *state(const struct block *block) {
  return keep(block->out, Ity_I64, IRExpr_Get(block->state, Ity_I64));
}

/* Adds to the state the instructions and accesses since the last exit, and `more` instructions, an atom of type I64;
   NULL: no more. */
static void put_state(struct block *block, IRExpr *more) {
  UWord added = block->new_accesses * sizeof(UWord) | (UWord)block->instructions << PENDING_INSTRUCTIONS_SHIFT;
  block->instructions = block->new_accesses = 0;
  if (added)
    addStmtToIRSB(block->out, IRStmt_Put(block->state, add(block, state(block), added)));
  if (!more)
    return;
  IRExpr *shift = IRExpr_Const(IRConst_U8(PENDING_INSTRUCTIONS_SHIFT));
  IRExpr *shifted = keep(block->out, Ity_I64, IRExpr_Binop(Iop_Shl64, more, shift));
  IRExpr *sum = keep(block->out, Ity_I64, IRExpr_Binop(Iop_Add64, state(block), shifted));
  addStmtToIRSB(block->out, IRStmt_Put(block->state, sum));
}

/* Up to four codes are an operand of 32 bits, sign-extended: the bytes behind the last code are overwritten when their
   places are used. */
static void shorten_codes(struct block *block) {
  if (block->codes && (block->accesses - 1) % PENDING_CODES < 4)
    block->codes->Ico.U64 = (ULong)(Long)(Int)block->codes->Ico.U64;
}

static void put_code(struct block *block, Char code) {
  UInt place = block->accesses % PENDING_CODES;
  if (place == 0) {
    block->codes = IRConst_U64(0);
    IRExpr *to = add(block, block->code_at, (UWord)(pending_codes + block->accesses));
    addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, to, IRExpr_Const(block->codes)));
  }
  block->codes->Ico.U64 |= (ULong)(UChar)code << (8 * place);
}

static void add_access(void *context, const struct data_access *access) {
  struct block *block = context;
  IRExpr *address = access->address;
  tl_assert(block->accesses < PENDING_ROOM);
  put_code(block, accesses_code(access->bytes, access->guard != NULL));
  if (access->guard)
    address = keep(block->out, Ity_I64, IRExpr_ITE(access->guard, address, mkIRExpr_HWord(0)));
  IRExpr *to = add(block, block->end, (UWord)(pending + block->accesses));
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, to, address));
  block->accesses++;
  block->new_accesses++;
}

static void note_access(void *context, const struct data_access *access) {
  (void)access;
  *(Bool *)context = True;
}

static Bool has_accesses(const IRSB *in) {
  Bool has = False;
  struct data_accesses walk = {.in = in, .add = note_access, .context = &has};
  for (Int index = 0; index < in->stmts_used && !has; index++)
    data_accesses_of(&walk, in->stmts[index]);
  return has;
}

static void add_statement(struct block *block, IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    block->instructions += strings_begin(&block->string, block->out, statement);
    data_accesses_break(&block->walk);
  } else if (statement->tag == Ist_Exit) {
    put_state(block, strings_before_exit(&block->string, block->out, statement));
    data_accesses_break(&block->walk);
  } else {
    strings_statement(&block->string, block->out, statement);
    if (block->end)
      data_accesses_of(&block->walk, statement);
  }
  addStmtToIRSB(block->out, statement);
}

static IRExpr *bytes_in_use(struct block *block) {
  return keep(block->out, Ity_I64,
              IRExpr_Unop(Iop_16Uto64, keep(block->out, Ity_I16, IRExpr_Get(block->state, Ity_I16))));
}

static void find_room(struct block *block) {
  IRExpr *limit = mkIRExpr_HWord(PENDING_FULL * sizeof(UWord));
  IRExpr *has_room = keep(block->out, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, bytes_in_use(block), limit));
  IRExpr *is_full = keep(block->out, Ity_I1, IRExpr_Unop(Iop_Not1, has_room));
  call_helper(block->out, "accesses_settle", accesses_settle, mkIRExprVec_0(), is_full);
  block->end = bytes_in_use(block);
  block->code_at = keep(block->out, Ity_I64, IRExpr_Binop(Iop_Shr64, block->end, IRExpr_Const(IRConst_U8(3))));
}

IRSB *accesses_instrument(IRSB *in, const struct translation *translation) {
  struct block block = {.out = deepCopyIRSBExceptStmts(in), .state = translation->layout->total_sizeB + PENDING_STATE};
  block.walk = (struct data_accesses){.in = in, .add = add_access, .context = &block};
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(block.out, in->stmts[index]);
  allocator_instrument(block.out, translation);
  /* Code of an allocator library never counts as the program's. */
  if (accesses_are_wanted() && objects_code_at(translation->address) != CODE_IS_ALLOCATORS && has_accesses(in))
    find_room(&block);
  for (; index < in->stmts_used; index++)
    add_statement(&block, in->stmts[index]);
  block.instructions += strings_end(&block.string, block.out);
  put_state(&block, NULL);
  shorten_codes(&block);
  return block.out;
}
