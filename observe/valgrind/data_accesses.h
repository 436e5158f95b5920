/* SPDX-License-Identifier: GPL-2.0-only */
/* The data accesses of a superblock's instructions.

   Job: from VEX's statements to accesses, for the modes that simulate or record them. Not its job: using an access.
   Invariants: accesses are in the order of execution; a write to the bytes that the same instruction has just read is
   part of that read, as for cachegrind. */
#pragma once

#include "observe/valgrind/tool.h"

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
