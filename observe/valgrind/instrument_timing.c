/* SPDX-License-Identifier: GPL-2.0-only */
/* Times of values, of a superblock's temporaries and of the guest's registers: Valgrind keeps a second copy of the
   guest's state, in which each register's place has the time at which it is ready.

   What an instruction computes is ready some cycles after what it reads; VEX cuts an instruction into several
   statements, so the cycles are added once, where the value leaves its instruction. */
#include "observe/valgrind/timing.h"

#include <pub_tool_libcassert.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_machine.h>
#include <pub_tool_mallocfree.h>

enum {
  REGISTER_BYTES = 8,
  CYCLES_SIMPLE = 1,
  CYCLES_MULTIPLY = 3,
  CYCLES_FLOATING = 4,
  CYCLES_DIVIDE = 18,
  CYCLES_ATOMIC = 18
};

/* A temporary of the superblock. */
struct value {
  IRExpr *ready;    /* NULL: always */
  UInt cycles;      /* to be added where it is used outside of `instruction` */
  UInt instruction; /* that computes it */
};

static struct value *values; /* by temporary */
static Int values_room;

void timing_begin_block(struct timing_block *block, IRSB *out, const IRSB *in, const VexGuestLayout *layout) {
  *block = (struct timing_block){
      .out = out, .in = in, .ip = layout->offset_IP, .sp = layout->offset_SP, .shadow = layout->total_sizeB};
  if (values_room < in->tyenv->types_used) {
    values_room = 2 * in->tyenv->types_used;
    values = VG_(realloc)("timing.values", values, (SizeT)values_room * sizeof *values);
  }
  VG_(memset)(values, 0, (SizeT)values_room * sizeof *values);
  block->begin = load_word(out, &timing.dispatch);
}

static IRExpr *binary(struct timing_block *block, IRType type, IROp operation, IRExpr *one, IRExpr *other) {
  return keep(block->out, type, IRExpr_Binop(operation, one, other));
}

static IRExpr *word(const IRExpr *ready) {
  return ready ? deepCopyIRExpr(ready) : mkIRExpr_HWord(0);
}

static IRExpr *later(struct timing_block *block, IRExpr *one, IRExpr *other) {
  if (!one || !other || eqIRAtom(one, other))
    return one ? one : other;
  return keep(block->out, Ity_I64, IRExpr_ITE(binary(block, Ity_I1, Iop_CmpLT64U, one, other), other, one));
}

static void settle(struct timing_block *block, struct value *value) {
  if (value->ready && value->cycles > 0)
    value->ready = binary(block, Ity_I64, Iop_Add64, value->ready, mkIRExpr_HWord(value->cycles * timing.width));
  value->cycles = 0;
}

/* The value of an atom, for this instruction. NULL: a constant. */
static struct value *value_of(struct timing_block *block, const IRExpr *atom) {
  if (atom->tag != Iex_RdTmp)
    return NULL;
  struct value *value = &values[atom->Iex.RdTmp.tmp];
  if (value->instruction != block->instruction)
    settle(block, value);
  return value;
}

static IRExpr *ready(struct timing_block *block, const IRExpr *atom) {
  struct value *value = value_of(block, atom);
  return value ? value->ready : NULL;
}

static UInt cycles_of(IROp operation) {
  switch (operation) {
  case Iop_Mul8 ... Iop_Mul64:
  case Iop_MullS8 ... Iop_MullU64:
    return CYCLES_MULTIPLY;
  case Iop_DivU32 ... Iop_DivModS32to32:
    return CYCLES_DIVIDE;
  default:
    return CYCLES_SIMPLE;
  }
}

static struct value computed(struct timing_block *block, IRExpr *ready, UInt cycles) {
  return (struct value){ready, cycles, block->instruction};
}

static struct value of_call(struct timing_block *block, IRExpr **arguments) {
  IRExpr *all = NULL;
  for (; *arguments; arguments++)
    if (!is_IRExpr_VECRET_or_GSPTR(*arguments))
      all = later(block, all, ready(block, *arguments));
  return computed(block, all, CYCLES_SIMPLE);
}

static struct value of_get(struct timing_block *block, Int offset) {
  if (offset == block->ip || offset + REGISTER_BYTES > block->shadow)
    return computed(block, NULL, 0);
  Int place = block->shadow + offset / REGISTER_BYTES * REGISTER_BYTES;
  return computed(block, keep(block->out, Ity_I64, IRExpr_Get(place, Ity_I64)), 0);
}

static struct value of_expression(struct timing_block *block, const IRExpr *expression) {
  IRExpr *all;
  switch (expression->tag) {
  case Iex_Get:
    return of_get(block, expression->Iex.Get.offset);
  case Iex_RdTmp:
  case Iex_Unop: { /* conversions, mostly */
    const IRExpr *read = expression->tag == Iex_RdTmp ? expression : expression->Iex.Unop.arg;
    const struct value *value = value_of(block, read);
    return value ? *value : computed(block, NULL, 0);
  }
  case Iex_Binop:
    all = later(block, ready(block, expression->Iex.Binop.arg1), ready(block, expression->Iex.Binop.arg2));
    return computed(block, all, cycles_of(expression->Iex.Binop.op));
  case Iex_Triop: { /* the first argument is the rounding mode */
    const IRTriop *operation = expression->Iex.Triop.details;
    all = later(block, ready(block, operation->arg2), ready(block, operation->arg3));
    return computed(block, all, CYCLES_FLOATING);
  }
  case Iex_Qop: {
    const IRQop *operation = expression->Iex.Qop.details;
    all = later(block, ready(block, operation->arg2), ready(block, operation->arg3));
    return computed(block, later(block, all, ready(block, operation->arg4)), CYCLES_FLOATING);
  }
  case Iex_ITE:
    all = later(block, ready(block, expression->Iex.ITE.iftrue), ready(block, expression->Iex.ITE.iffalse));
    return computed(block, later(block, all, ready(block, expression->Iex.ITE.cond)), CYCLES_SIMPLE);
  case Iex_CCall:
    return of_call(block, expression->Iex.CCall.args);
  case Iex_Load:
    return computed(block, block->loaded, 0);
  default:
    return computed(block, NULL, 0);
  }
}

static void pass_instructions(struct timing_block *block) {
  if (block->before > 0)
    call_helper(block->out, "timing_instructions", timing_instructions, mkIRExprVec_1(mkIRExpr_HWord(block->before)),
                NULL);
  block->before = 0;
}

void timing_mark(struct timing_block *block, const IRStmt *mark, Bool is_string) {
  block->instruction++;
  block->address = mark->Ist.IMark.addr;
  block->next = block->address + mark->Ist.IMark.len;
  block->branches = False;
  block->is_string = is_string;
  block->before += !is_string;
}

void timing_add_access(struct timing_block *block, IRExpr *address, UInt how, IRExpr *guard) {
  if (guard)
    pass_instructions(block);
  IRTemp loaded = newIRTemp(block->out->tyenv, Ity_I64);
  HWord all = how | (block->is_string ? TIMING_STRING : 0) | (HWord)block->before << TIMING_BEFORE;
  IRExpr **arguments = mkIRExprVec_3(address, mkIRExpr_HWord(all), word(ready(block, address)));
  IRDirty *call = unsafeIRDirty_1_N(loaded, 3, "timing_access", VG_(fnptr_to_fnentry)(timing_access), arguments);
  if (guard)
    call->guard = guard;
  addStmtToIRSB(block->out, IRStmt_Dirty(call));
  block->before = 0;
  block->loaded = IRExpr_RdTmp(loaded);
}

static void add_store(struct timing_block *block, IRExpr *address, const IRExpr *data, IRExpr *guard) {
  struct value *value = value_of(block, data);
  if (value)
    settle(block, value);
  IRExpr *when = value ? value->ready : NULL;
  call_helper(block->out, "timing_store", timing_store, mkIRExprVec_2(address, word(when)), guard);
}

static void add_put(struct timing_block *block, Int offset, const IRExpr *data) {
  if (offset == block->ip || offset + REGISTER_BYTES > block->shadow)
    return;
  struct value *value = value_of(block, data);
  if (value && offset != block->sp) /* processors have pushes and pops wait for no addition */
    settle(block, value);
  IRExpr *when = value ? value->ready : NULL;
  block->latest = later(block, block->latest, when);
  when = later(block, block->begin, when);
  addStmtToIRSB(block->out, IRStmt_Put(block->shadow + offset / REGISTER_BYTES * REGISTER_BYTES, word(when)));
}

/* Instructions end in order: none ends before the registers that were written are ready. */
static void pass_latest(struct timing_block *block) {
  if (!block->latest)
    return;
  IRExpr *all = later(block, load_word(block->out, &timing.retire), block->latest);
  addStmtToIRSB(block->out, IRStmt_Store(Iend_LE, mkIRExpr_HWord((HWord)&timing.retire), all));
  block->latest = NULL;
}

static void add_exit(struct timing_block *block, const IRStmt *exit) {
  pass_latest(block);
  if (exit->Ist.Exit.jk != Ijk_Boring || block->is_string) {
    pass_instructions(block);
    return;
  }
  Bool falls = exit->Ist.Exit.dst->Ico.U64 == block->next;
  HWord how = (HWord)block->before << TIMING_BEFORE | (falls ? TIMING_FALLS : 0);
  IRExpr *exits = keep(block->out, Ity_I64, IRExpr_Unop(Iop_1Uto64, exit->Ist.Exit.guard));
  IRExpr *all = binary(block, Ity_I64, Iop_Or64, exits, mkIRExpr_HWord(how));
  call_helper(block->out, "timing_branch", timing_branch,
              mkIRExprVec_3(mkIRExpr_HWord(block->address), all, word(ready(block, exit->Ist.Exit.guard))), NULL);
  block->before = 0;
  block->branches = True;
}

void timing_statement(struct timing_block *block, const IRStmt *statement) {
  switch (statement->tag) {
  case Ist_WrTmp:
    values[statement->Ist.WrTmp.tmp] = of_expression(block, statement->Ist.WrTmp.data);
    break;
  case Ist_Put:
    add_put(block, statement->Ist.Put.offset, statement->Ist.Put.data);
    break;
  case Ist_Store:
    add_store(block, statement->Ist.Store.addr, statement->Ist.Store.data, NULL);
    break;
  case Ist_StoreG: {
    const IRStoreG *store = statement->Ist.StoreG.details;
    add_store(block, store->addr, store->data, store->guard);
    break;
  }
  case Ist_LoadG: { /* without its guard, the time of the load is not known */
    const IRLoadG *load = statement->Ist.LoadG.details;
    IRExpr *other = word(ready(block, load->alt));
    IRExpr *when = keep(block->out, Ity_I64, IRExpr_ITE(load->guard, block->loaded, other));
    values[load->dst] = computed(block, when, 0);
    break;
  }
  case Ist_CAS:
    values[statement->Ist.CAS.details->oldLo] = computed(block, block->loaded, CYCLES_ATOMIC);
    break;
  case Ist_Exit:
    add_exit(block, statement);
    break;
  default:
    break;
  }
}

void timing_end_block(struct timing_block *block) {
  pass_latest(block);
  const IRExpr *next = block->in->next;
  IRJumpKind kind = block->in->jumpkind;
  Bool jumps = !block->is_string && !block->branches && (kind == Ijk_Boring || kind == Ijk_Call || kind == Ijk_Ret);
  if (jumps && (next->tag == Iex_Const ? next->Iex.Const.con->Ico.U64 != block->next : kind == Ijk_Ret)) {
    call_helper(block->out, "timing_jump", timing_jump, mkIRExprVec_1(mkIRExpr_HWord(block->before)), NULL);
    return;
  }
  pass_instructions(block);
  if (jumps && next->tag != Iex_Const)
    call_helper(block->out, "timing_jump_to", timing_jump_to,
                mkIRExprVec_3(deepCopyIRExpr(next), mkIRExpr_HWord(block->address), word(ready(block, next))), NULL);
}
