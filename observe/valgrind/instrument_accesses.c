/* What translated code writes to the buffer of accesses.h. */
#include "observe/valgrind/accesses.h"
#include "observe/valgrind/allocator.h"
#include "observe/valgrind/data_accesses.h"
#include "observe/valgrind/objects.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_machine.h>

/* A superblock under way. */
struct block {
  IRSB *out;
  IRExpr *end;       /* the buffer's end when the superblock began */
  UInt words;        /* written since */
  Bool has_accesses; /* else only instructions are counted */
  /* The stretch since the last exit. */
  UInt instructions, count;
  UWord sizes;
  UInt header; /* its place among the words */
  struct data_accesses accesses;
};

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

static void add_access(void *context, const struct data_access *access) {
  struct block *block = context;
  IRExpr *address = access->address;
  if (!block->has_accesses)
    return;
  if (block->count == STRETCH_ACCESSES) {
    end_stretch(block);
    begin_stretch(block);
  }
  if (access->guard)
    address = keep(block->out, Ity_I64, IRExpr_ITE(access->guard, address, mkIRExpr_HWord(0)));
  put_word(block, block->words++, address);
  block->sizes |= (UWord)accesses_size_code(access->bytes) << (block->count++ * STRETCH_SIZE_BITS);
}

static void add_statement(struct block *block, IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    block->instructions++;
    data_accesses_break(&block->accesses);
  } else if (statement->tag == Ist_Exit) {
    end_stretch(block);
    store_end(block);
    begin_stretch(block);
    data_accesses_break(&block->accesses);
  } else {
    data_accesses_of(&block->accesses, statement);
  }
  addStmtToIRSB(block->out, statement);
}

/* So that a superblock finds room. */
static void settle_if_full(IRSB *into) {
  IRExpr *full =
      keep(into, Ity_I1,
           IRExpr_Binop(Iop_CmpLT64U, mkIRExpr_HWord((HWord)&pending[PENDING_WORDS]), load_word(into, &pending_end)));
  IRDirty *call = unsafeIRDirty_0_N(0, "accesses_settle", VG_(fnptr_to_fnentry)(accesses_settle), mkIRExprVec_0());
  call->guard = full;
  addStmtToIRSB(into, IRStmt_Dirty(call));
}

IRSB *accesses_instrument(IRSB *in, const struct translation *translation) {
  struct block block = {.out = deepCopyIRSBExceptStmts(in)};
  block.accesses = (struct data_accesses){.in = in, .add = add_access, .context = &block};
  /* Code of an allocator library never runs as the program's. */
  block.has_accesses = objects_code_at(translation->address) != CODE_IS_ALLOCATORS;
  Int index = 0;
  for (; index < in->stmts_used && in->stmts[index]->tag != Ist_IMark; index++)
    addStmtToIRSB(block.out, in->stmts[index]);
  allocator_instrument(block.out, translation);
  settle_if_full(block.out);
  block.end = load_word(block.out, &pending_end);
  begin_stretch(&block);
  for (; index < in->stmts_used; index++)
    add_statement(&block, in->stmts[index]);
  end_stretch(&block);
  store_end(&block);
  return block.out;
}
