/* SPDX-License-Identifier: GPL-2.0-only */
/* What the modes share: pieces of instrumentation, and memory. */
#include "observe/valgrind/common/instrument.h"
#include "observe/valgrind/common/tool.h"

#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcassert.h>
#include <pub_tool_libcprint.h>
#include <pub_tool_libcproc.h>
#include <pub_tool_machine.h>

static void *from_pointer(void *memory) {
  return memory;
}

static void *from_result(SysRes result) {
  return sr_isError(result) ? NULL : (void *)sr_Res(result);
}

void *map_zeroed(SizeT bytes, const HChar *what) {
  /* A pointer in Valgrind 3.19, a result in 3.24. */
  __typeof__(VG_(am_shadow_alloc)(bytes)) mapped = VG_(am_shadow_alloc)((bytes + 4095) & ~(SizeT)4095);
  void *memory = _Generic(mapped, void * : from_pointer, SysRes : from_result)(mapped);
  if (!memory) {
    VG_(umsg)("heaptape: no memory for %s: %lu bytes\n", what, bytes);
    VG_(exit)(1);
  }
  return memory;
}

struct executed executed;

struct counted counted_now(void) {
  ULong bytes = 0;
  for (UInt shift = 0; shift < sizeof executed.elements / sizeof *executed.elements; shift++)
    bytes += executed.elements[shift] << shift;
  return (struct counted){executed.instructions, executed.strings, bytes};
}

struct counted counted_since(struct counted now, struct counted before) {
  return (struct counted){now.instructions - before.instructions, now.strings - before.strings,
                          now.string_bytes - before.string_bytes};
}

struct counted counted_sum(struct counted one, struct counted other) {
  return (struct counted){one.instructions + other.instructions, one.strings + other.strings,
                          one.string_bytes + other.string_bytes};
}

IRExpr *keep(IRSB *into, IRType type, IRExpr *expression) {
  IRTemp temporary = newIRTemp(into->tyenv, type);
  addStmtToIRSB(into, IRStmt_WrTmp(temporary, expression));
  return IRExpr_RdTmp(temporary);
}

/* An atom: the word at address, read when it is executed. */
static IRExpr *load_word(IRSB *into, const void *address) {
  return keep(into, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)address)));
}

/* A load, an addition and a store inline: calling a helper would cost ten times as much. */
static void add_to_counter(IRSB *into, ULong *counter, IRExpr *more) {
  IRExpr *after = keep(into, Ity_I64, IRExpr_Binop(Iop_Add64, load_word(into, counter), more));
  addStmtToIRSB(into, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)counter), after));
}

void call_helper(IRSB *into, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard) {
  Int count = 0;
  while (arguments[count])
    count++;
  IRDirty *call = unsafeIRDirty_0_N(count, name, VG_(fnptr_to_fnentry)(function), arguments);
  if (guard)
    call->guard = guard;
  addStmtToIRSB(into, IRStmt_Dirty(call));
}

IRExpr *word_equals(IRSB *into, const UWord *address, UWord value) {
  IRExpr *word = load_word(into, address);
  return keep(into, Ity_I1, IRExpr_Binop(Iop_CmpEQ64, word, mkIRExpr_HWord(value)));
}

IRExpr *word_below(IRSB *into, const UWord *address, IRExpr *value) {
  return keep(into, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, load_word(into, address), value));
}

IRExpr *stack_pointer(IRSB *into, const VexGuestLayout *layout) {
  return keep(into, Ity_I64, IRExpr_Get(layout->offset_SP, Ity_I64));
}

void data_accesses_break(struct data_accesses *accesses) {
  accesses->read_address = NULL;
}

static void add_read(struct data_accesses *accesses, const struct data_access *read) {
  accesses->add(accesses->context, read);
  accesses->read_address = read->address;
  accesses->read_bytes = read->bytes;
}

static void add_write(struct data_accesses *accesses, const struct data_access *write) {
  Bool joins = accesses->read_address && accesses->read_bytes == write->bytes &&
               eqIRAtom(accesses->read_address, write->address);
  accesses->read_address = NULL;
  if (!joins)
    accesses->add(accesses->context, write);
}

static void add_guarded(struct data_accesses *accesses, const struct data_access *access) {
  accesses->read_address = NULL;
  accesses->add(accesses->context, access);
}

static Int size_of(const struct data_accesses *accesses, const IRExpr *expression) {
  return sizeofIRType(typeOfIRExpr(accesses->in->tyenv, expression));
}

static Bool is_always(const IRExpr *guard) {
  return guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1;
}

static void add_dirty(struct data_accesses *accesses, const IRDirty *call) {
  struct data_access access = {call->mAddr, call->mSize, is_always(call->guard) ? NULL : call->guard, True};
  if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
    add_read(accesses, &access);
  if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
    add_write(accesses, &access);
}

static void add_cas(struct data_accesses *accesses, const IRCAS *cas) {
  Int bytes = size_of(accesses, cas->dataLo) * (cas->dataHi ? 2 : 1);
  struct data_access access = {cas->addr, bytes, NULL, False};
  add_read(accesses, &access);
  add_write(accesses, &access);
}

static void add_guarded_load(struct data_accesses *accesses, const IRLoadG *load) {
  IRType result, loaded;
  typeOfIRLoadGOp(load->cvt, &result, &loaded);
  add_guarded(accesses, &(struct data_access){load->addr, sizeofIRType(loaded), load->guard, False});
}

static void add_guarded_store(struct data_accesses *accesses, const IRStoreG *store) {
  add_guarded(accesses, &(struct data_access){store->addr, size_of(accesses, store->data), store->guard, False});
}

static void add_load(struct data_accesses *accesses, const IRExpr *data) {
  if (data->tag == Iex_Load)
    add_read(accesses, &(struct data_access){data->Iex.Load.addr, sizeofIRType(data->Iex.Load.ty), NULL, False});
}

void data_accesses_of(struct data_accesses *accesses, const IRStmt *statement) {
  switch (statement->tag) {
  case Ist_WrTmp:
    add_load(accesses, statement->Ist.WrTmp.data);
    break;
  case Ist_Store:
    add_write(accesses, &(struct data_access){statement->Ist.Store.addr, size_of(accesses, statement->Ist.Store.data),
                                              NULL, False});
    break;
  case Ist_StoreG:
    add_guarded_store(accesses, statement->Ist.StoreG.details);
    break;
  case Ist_LoadG:
    add_guarded_load(accesses, statement->Ist.LoadG.details);
    break;
  case Ist_Dirty:
    add_dirty(accesses, statement->Ist.Dirty.details);
    break;
  case Ist_CAS:
    add_cas(accesses, statement->Ist.CAS.details);
    break;
  default: /* x86-64 has no other statements that touch memory */
    break;
  }
}

/* Prefixes other than REX, F2 and F3 that a string instruction may have. */
static Bool is_prefix(UChar byte) {
  return byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || (byte >= 0x64 && byte <= 0x67);
}

/* Of a repeated string instruction: fills in the size of its elements. The instruction was just translated, so its code
   can be read. */
static Bool is_repeated_string(const UChar *code, UInt bytes, UInt *shift) {
  Bool repeats = False, is_short = False, is_wide = False;
  UInt at = 0;
  for (; at < bytes && (is_prefix(code[at]) || code[at] == 0xf2 || code[at] == 0xf3); at++) {
    repeats |= code[at] == 0xf2 || code[at] == 0xf3;
    is_short |= code[at] == 0x66;
  }
  if (at < bytes && (code[at] & 0xf0) == 0x40)
    is_wide = (code[at++] & 8) != 0;
  if (!repeats || at + 1 != bytes)
    return False;
  UChar operation = code[at] & 0xfe;
  *shift = (code[at] & 1) == 0 ? 0 : is_wide ? 3 : is_short ? 1 : 2;
  return operation == 0xa4 || operation == 0xa6 || (operation >= 0xaa && operation <= 0xae);
}

static void end_string(IRSB *into) {
  add_to_counter(into, &executed.strings, mkIRExpr_HWord(1));
}

UInt strings_begin(struct string_walk *walk, IRSB *into, const IRStmt *mark) {
  Addr address = mark->Ist.IMark.addr;
  UInt ended = 0;
  if (walk->address && walk->address != address) {
    ended = 1;
    end_string(into);
  }
  *walk = (struct string_walk){0};
  if (!is_repeated_string((const UChar *)address, mark->Ist.IMark.len, &walk->shift))
    return ended + 1;
  walk->address = address;
  return ended;
}

IRExpr *strings_before_exit(const struct string_walk *walk, IRSB *into, const IRStmt *exit) {
  if (!walk->address || exit->Ist.Exit.dst->Ico.U64 == walk->address)
    return NULL;
  IRExpr *taken = keep(into, Ity_I64, IRExpr_Unop(Iop_1Uto64, exit->Ist.Exit.guard));
  add_to_counter(into, &executed.strings, taken);
  return taken;
}

void strings_statement(struct string_walk *walk, IRSB *into, const IRStmt *statement) {
  Bool accesses =
      statement->tag == Ist_Store || (statement->tag == Ist_WrTmp && statement->Ist.WrTmp.data->tag == Iex_Load);
  if (!walk->address || walk->entered || !accesses)
    return;
  walk->entered = True;
  add_to_counter(into, &executed.elements[walk->shift], mkIRExpr_HWord(1));
}

UInt strings_end(const struct string_walk *walk, IRSB *into) {
  Bool repeats = into->next->tag == Iex_Const && into->next->Iex.Const.con->Ico.U64 == walk->address;
  if (!walk->address || repeats)
    return 0;
  end_string(into);
  return 1;
}

static void add_pending(struct counting *counting, IRSB *into) {
  if (counting->pending > 0)
    add_to_counter(into, &executed.instructions, mkIRExpr_HWord(counting->pending));
  counting->pending = 0;
}

void counting_statement(struct counting *counting, IRSB *into, const IRStmt *statement) {
  if (statement->tag == Ist_IMark) {
    counting->pending += strings_begin(&counting->string, into, statement);
    return;
  }
  if (statement->tag != Ist_Exit) {
    strings_statement(&counting->string, into, statement);
    return;
  }
  IRExpr *ends = strings_before_exit(&counting->string, into, statement);
  add_pending(counting, into);
  if (ends)
    add_to_counter(into, &executed.instructions, ends);
}

void counting_end(struct counting *counting, IRSB *into) {
  counting->pending += strings_end(&counting->string, into);
  add_pending(counting, into);
}
