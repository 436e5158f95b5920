/* SPDX-License-Identifier: GPL-2.0-only */
/* The pieces of instrumentation that the modes share. */
#include "observe/valgrind/tool.h"

#include <pub_tool_machine.h>

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

IRExpr *load_word(IRSB *into, const void *address) {
  return keep(into, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)address)));
}

/* A load, an addition and a store inline: calling a helper would cost ten times as much. */
void add_to_counter(IRSB *into, ULong *counter, IRExpr *more) {
  IRExpr *after = keep(into, Ity_I64, IRExpr_Binop(Iop_Add64, load_word(into, counter), more));
  addStmtToIRSB(into, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)counter), after));
}

static void add_call(IRSB *into, IRDirty *call, IRExpr *guard) {
  if (guard)
    call->guard = guard;
  addStmtToIRSB(into, IRStmt_Dirty(call));
}

void call_helper(IRSB *into, const HChar *name, void *function, IRExpr *argument, IRExpr *guard) {
  add_call(into, unsafeIRDirty_0_N(1, name, VG_(fnptr_to_fnentry)(function), mkIRExprVec_1(argument)), guard);
}

void call_helper_2(IRSB *into, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard) {
  add_call(into, unsafeIRDirty_0_N(2, name, VG_(fnptr_to_fnentry)(function), arguments), guard);
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
