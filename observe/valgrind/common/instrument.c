/* SPDX-License-Identifier: GPL-2.0-only */
/* The pieces of instrumentation that the modes share. */
#include "observe/valgrind/common/tool.h"

#include <pub_tool_machine.h>

ULong instructions_executed;

IRExpr *keep(IRSB *into, IRType type, IRExpr *expression) {
  IRTemp temporary = newIRTemp(into->tyenv, type);
  addStmtToIRSB(into, IRStmt_WrTmp(temporary, expression));
  return IRExpr_RdTmp(temporary);
}

IRExpr *load_word(IRSB *into, const void *address) {
  return keep(into, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, mkIRExpr_HWord((HWord)address)));
}

/* A load, an addition and a store inline: calling a helper would cost ten times as much. */
void count_instructions(IRSB *into, UInt instructions) {
  if (instructions == 0)
    return;
  IRExpr *before = load_word(into, &instructions_executed);
  IRExpr *after = keep(into, Ity_I64, IRExpr_Binop(Iop_Add64, before, IRExpr_Const(IRConst_U64(instructions))));
  addStmtToIRSB(into, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)&instructions_executed), after));
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
