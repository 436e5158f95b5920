/* SPDX-License-Identifier: GPL-2.0-only */
/* Which data accesses the instructions of a superblock make.

   Job: from VEX's statements to accesses, for the modes that simulate or record them. Not its job: what becomes of an
   access. Invariants: accesses come in the order of execution; a write to the bytes that the same instruction has just
   read is part of that read, as for cachegrind. */
#pragma once

#include "observe/valgrind/common/tool.h"

struct data_access {
  IRExpr *address; /* an atom */
  Int bytes;
  IRExpr *guard;   /* NULL: it happens in any case */
  Bool is_helpers; /* made by a function of VEX's. Cachegrind takes no notice of the guard of such */
};

struct data_accesses {
  const IRSB *in;
  void (*add)(void *context, const struct data_access *access);
  void *context;
  IRExpr *read_address; /* of the read that a write joins; NULL: there is none. Filled in by the functions below */
  Int read_bytes;
};

/* The statements that follow are another instruction's, or behind an exit. */
void data_accesses_break(struct data_accesses *accesses);

/* Adds the accesses of a statement; it is to come behind what add makes of them. */
void data_accesses_of(struct data_accesses *accesses, const IRStmt *statement);
