/* SPDX-License-Identifier: GPL-2.0-only */
/* The data accesses of a superblock's instructions.

   Job: from VEX's statements to accesses, for the modes that simulate or record them. Invariants: accesses are in the
   order of execution; a write to the bytes that the same instruction has just read is part of that read, as for
   cachegrind. */
#pragma once

#include "observe/valgrind/common/tool.h"

struct data_access {
  IRExpr *address; /* an atom */
  Int bytes;
  IRExpr *guard;   /* NULL: it happens in any case */
  Bool is_helpers; /* made by a function of VEX's. Cachegrind ignores the guard of such an access */
};

struct data_accesses {
  const IRSB *in;
  void (*add)(void *context, const struct data_access *access);
  void *context;
  IRExpr *read_address; /* of the read that a write belongs to; NULL: none. Filled in by the functions below */
  Int read_bytes;
};

/* To be called where another instruction begins, and behind an exit. */
void data_accesses_break(struct data_accesses *accesses);

/* Calls add for a statement's accesses; the caller then adds the statement itself. */
void data_accesses_of(struct data_accesses *accesses, const IRStmt *statement);

/* Repeated string instructions (rep movsb and the like), counted as a processor's counters do: one instruction,
   however many elements it moves.

   VEX translates one element at a time: an exit to the next instruction where none remains, the element, and a jump to
   the instruction itself; or, of repe and repne, a second exit. Translations of short loops are unrolled, so a
   superblock may hold several elements of one instruction. Counted naively, an instruction of N bytes is N + 1.
   Job: tells an instrumenter which exits end the instruction, and adds the code that counts string instructions and
   their elements. Not its job: counting the instruction itself among all others, which each mode does in its own
   way. */

/* The string instruction that a superblock is in. All zero: none. */
struct string_walk {
  Addr address; /* 0: none */
  UInt shift;   /* its elements have 1 << shift bytes */
  Bool entered; /* its element was counted */
};

/* An instruction begins. Returns the number of instructions that this adds to those executed: 1; or for a string
   instruction 0, and it counts where it ends; and 1 more if a string instruction ended here. */
UInt strings_begin(struct string_walk *walk, IRSB *into, const IRStmt *mark);

/* Before an exit is added to into: an atom of type I64, 1 if the exit is taken and ends the string instruction, else 0.
   NULL: it doesn't end one. */
IRExpr *strings_before_exit(const struct string_walk *walk, IRSB *into, const IRStmt *exit);

/* Any other statement is added. An element is counted where memory is accessed: VEX leaves out the first exit where it
   knows the number of elements. */
void strings_statement(struct string_walk *walk, IRSB *into, const IRStmt *statement);

/* The superblock ends. Returns the number of string instructions that end with it, 0 or 1. */
UInt strings_end(const struct string_walk *walk, IRSB *into);

/* For modes that add instructions to `executed` where they are executed. All zero where a superblock begins. */
struct counting {
  UInt pending; /* instructions not yet added */
  struct string_walk string;
};

/* Before a statement is added to into; after all were. */
void counting_statement(struct counting *counting, IRSB *into, const IRStmt *statement);
void counting_end(struct counting *counting, IRSB *into);
