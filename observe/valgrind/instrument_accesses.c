/* What translated code leaves in the buffer of accesses.h. */
#include "observe/valgrind/accesses.h"
#include "observe/valgrind/allocator.h"
#include "observe/valgrind/objects.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_machine.h>

/* A superblock under way. */
struct block {
  IRSB *in, *out;
  IRExpr *end;       /* the buffer's end when the superblock began */
  UInt words;        /* written since */
  Bool has_accesses; /* else only instructions are counted */
  /* The stretch since the last exit. */
  UInt instructions, count;
  UWord sizes;
  UInt header; /* its place among the words */
  /* The read that a write to the same bytes by the same instruction joins: NULL if there is none. */
  IRExpr *read_address;
  Int read_bytes;
};

static IRExpr *keep(IRSB *into, IRType type, IRExpr *expression) {
  IRTemp temporary = newIRTemp(into->tyenv, type);
  addStmtToIRSB(into, IRStmt_WrTmp(temporary, expression));
  return IRExpr_RdTmp(temporary);
}

static IRExpr *load_end(IRSB *into) {
  return keep(into, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)&pending_end)));
}

static IRExpr *place(struct block *block, UInt word) {
  if (word == 0)
    return block->end;
  return keep(block->out, Ity_I64, IRExpr_Binop(Iop_Add64, block->end, mkIRExpr_HWord(word * sizeof(UWord))));
}

static void put_word(struct block *block, UInt word, IRExpr *value) {
  tl_assert(word < PENDING_ROOM);
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, place(block, word), value));
}

static void begin_stretch(struct block *block) {
  block->instructions = block->count = 0;
  block->sizes = 0;
  block->header = block->words++;
}

/* The header goes in last, as only then its content is known. */
static void end_stretch(struct block *block) {
  if (block->instructions == 0 && block->count == 0) {
    block->words = block->header;
    return;
  }
  UWord header =
      block->instructions | (UWord)block->count << STRETCH_INSTRUCTIONS_BITS | block->sizes << STRETCH_SIZES_SHIFT;
  put_word(block, block->header, mkIRExpr_HWord(header));
}

/* Lets the buffer end behind what has been written. */
static void store_end(struct block *block) {
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)&pending_end), place(block, block->words)));
}

/* guard: NULL for always. */
static void add_access(struct block *block, IRExpr *address, Int bytes, IRExpr *guard) {
  if (!block->has_accesses)
    return;
  if (block->count == STRETCH_ACCESSES) {
    end_stretch(block);
    begin_stretch(block);
  }
  if (guard)
    address = keep(block->out, Ity_I64, IRExpr_ITE(guard, address, mkIRExpr_HWord(0)));
  put_word(block, block->words++, address);
  block->sizes |= (UWord)accesses_size_code(bytes) << (block->count++ * STRETCH_SIZE_BITS);
}

static void add_read(struct block *block, IRExpr *address, Int bytes, IRExpr *guard) {
  add_access(block, address, bytes, guard);
  block->read_address = guard ? NULL : address;
  block->read_bytes = bytes;
}

static void add_write(struct block *block, IRExpr *address, Int bytes, IRExpr *guard) {
  Bool joins = block->read_address && block->read_bytes == bytes && eqIRAtom(block->read_address, address);
  block->read_address = NULL;
  if (!joins)
    add_access(block, address, bytes, guard);
}

static Int size_of(const struct block *block, IRExpr *expression) {
  return sizeofIRType(typeOfIRExpr(block->in->tyenv, expression));
}

static Bool is_always(const IRExpr *guard) {
  return guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
}

static void add_dirty(struct block *block, const IRDirty *call) {
  IRExpr *guard = is_always(call->guard) ? NULL : call->guard;
  if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
    add_read(block, call->mAddr, call->mSize, guard);
  else if (call->mFx == Ifx_Write)
    add_write(block, call->mAddr, call->mSize, guard);
}

static void add_guarded_load(struct block *block, const IRLoadG *load) {
  IRType result, loaded;
  typeOfIRLoadGOp(load->cvt, &result, &loaded);
  add_read(block, load->addr, sizeofIRType(loaded), load->guard);
}

/* The accesses of a statement. */
static void add_accesses(struct block *block, IRStmt *statement) {
  const IRExpr *data;
  const IRCAS *cas;
  const IRStoreG *store;
  switch (statement->tag) {
  case Ist_WrTmp:
    data = statement->Ist.WrTmp.data;
    if (data->tag == Iex_Load)
      add_read(block, data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty), NULL);
    break;
  case Ist_Store:
    add_write(block, statement->Ist.Store.addr, size_of(block, statement->Ist.Store.data), NULL);
    break;
  case Ist_StoreG:
    store = statement->Ist.StoreG.details;
    add_write(block, store->addr, size_of(block, store->data), store->guard);
    break;
  case Ist_LoadG:
    add_guarded_load(block, statement->Ist.LoadG.details);
    break;
  case Ist_Dirty:
    add_dirty(block, statement->Ist.Dirty.details);
    break;
  case Ist_CAS:
    cas = statement->Ist.CAS.details;
    add_read(block, cas->addr, size_of(block, cas->dataLo) * (cas->dataHi ? 2 : 1), NULL);
    break;
  default: /* x86-64 has no others that touch memory */
    break;
  }
}

static void add_statement(struct block *block, IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    block->instructions++;
    block->read_address = NULL;
  } else if (statement->tag == Ist_Exit) {
    end_stretch(block);
    store_end(block);
    begin_stretch(block);
    block->read_address = NULL;
  } else {
    add_accesses(block, statement);
  }
  addStmtToIRSB(block->out, statement);
}

/* So that a superblock finds room. */
static void settle_if_full(IRSB *into) {
  IRExpr *full =
      keep(into, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, mkIRExpr_HWord((HWord)&pending[PENDING_WORDS]), load_end(into)));
  IRDirty *call = unsafeIRDirty_0_N(0, "accesses_settle", VG_(fnptr_to_fnentry)(accesses_settle), mkIRExprVec_0());
  call->guard = full;
  addStmtToIRSB(into, IRStmt_Dirty(call));
}

IRSB *accesses_instrument(IRSB *in, const struct translation *translation) {
  struct block block = {.in = in, .out = deepCopyIRSBExceptStmts(in)};
  /* Code of an allocator library never runs as the program's. */
  block.has_accesses = objects_code_at(translation->address) != CODE_IS_ALLOCATORS;
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(block.out, in->stmts[index]);
  allocator_instrument(block.out, translation);
  settle_if_full(block.out);
  block.end = load_end(block.out);
  begin_stretch(&block);
  for (; index < in->stmts_used; index++)
    add_statement(&block, in->stmts[index]);
  end_stretch(&block);
  store_end(&block);
  return block.out;
}
