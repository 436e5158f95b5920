/* SPDX-License-Identifier: GPL-2.0-only */
/* The Valgrind tool `heaptape`: declarations that its files share. This folder is a separate program under GPL-2
   (LICENSE here).

   Valgrind's scheduler runs one thread of the client at a time, and calls into the tool only from it: nothing here
   needs locks. */
#pragma once

#include <pub_tool_basics.h>
#include <pub_tool_debuginfo.h>
#include <pub_tool_tooliface.h>

/* Guest instructions executed so far by all threads, exact wherever the tool's code runs (but of a string instruction
   under way). strings: those of them that are repeated string instructions (instrument.h). */
extern struct executed {
  ULong instructions, strings, elements[4]; /* of string instructions, by size: of 1, 2, 4 and 8 bytes */
} executed;

/* What the tables have of it. */
struct counted {
  ULong instructions, strings, string_bytes;
};
struct counted counted_now(void);
struct counted counted_since(struct counted now, struct counted before);
struct counted counted_sum(struct counted one, struct counted other);

/* Returns that many bytes, rounded up to OS pages, of zeroed memory; ends the program where there is none for what. */
void *map_zeroed(SizeT bytes, const HChar *what);

/* Adds to into a call of the function. arguments: mkIRExprVec_0 to _2, atoms of type I64. guard: NULL: always call. */
void call_helper(IRSB *into, const HChar *name, void *function, IRExpr **arguments, IRExpr *guard);

/* An atom with that value. */
IRExpr *keep(IRSB *into, IRType type, IRExpr *expression);

/* An atom of type I1: does the word at address, read when it is executed, equal value? */
IRExpr *word_equals(IRSB *into, const UWord *address, UWord value);

/* The same: is it, unsigned, less than value? */
IRExpr *word_below(IRSB *into, const UWord *address, IRExpr *value);

/* The stack pointer at this point. Right at the start of a superblock; later only where VEX keeps it precise. */
IRExpr *stack_pointer(IRSB *into, const VexGuestLayout *layout);

/* The arguments that an instrumenter gets from Valgrind. */
struct translation {
  const VexGuestLayout *layout;
  Addr address; /* of the superblock's first instruction */
};
