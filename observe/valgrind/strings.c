/* SPDX-License-Identifier: GPL-2.0-only */
#include "observe/valgrind/strings.h"

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
