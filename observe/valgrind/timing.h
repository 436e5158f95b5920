/* SPDX-License-Identifier: GPL-2.0-only */
/* Mode simulate with --core: the processor cycles that the program's dataflow takes.

   Job: each register and each word of memory has the time at which its value is ready. Instructions are dispatched in
   order, WIDTH a cycle, and an instruction no earlier than the end of the one WINDOW before it; they end in order. A
   load begins when it is dispatched, its address is ready and the last store to its word has its value; it takes the
   latency of the level that it hits (simulate.h) and of the TLB. Of the dispatched loads at most LOADS have not begun.
   So loads that depend on each other wait for each other, and others overlap. Taken branches are dispatched TAKEN
   tenths of a cycle apart. A mispredicted branch (conditional: gshare; indirect: its last target behind the same ones)
   stops dispatch until its condition or target is ready, and for BRANCH cycles more. A repeated string instruction
   takes STRING cycles to start, and one for each line. Invariants: nothing is timed, so the same run gives the same
   cycles; retire >= dispatch.

   Left out: the latency of stores; instruction misses; returns, which count as predicted; the number of execution
   units; what one instruction is split into. Threads run one after the other, and their cycles add up. */
#pragma once

#include "observe/valgrind/output.h"
#include "observe/valgrind/tool.h"

/* Options --core=WIDTH:WINDOW:LOADS:BRANCH:STRING:TAKEN, --latencies=ANY[:NEAR[:FORESEEN]],... of each cache, then of
   memory: of a miss, of one whose line is the other of a pair that a prefetcher brings, and of one in a stream; and
   --tlb-latencies=CYCLES,... of a miss of each TLB. Each returns False for invalid text. */
Bool timing_set_core(const HChar *text);
Bool timing_set_latencies(const HChar *text);
Bool timing_set_tlb_latencies(const HChar *text);

/* Was --core given? */
extern Bool timing_is_on;

/* Are there as many latencies as the caches and TLBs need? */
Bool timing_fits(void);

void timing_reset(void);         /* in a fork's child: cycles count from here */
void timing_write(VgFile *file); /* keys "cycles" and "mispredicted_branches", if --core was given */

/* The time of the model: WIDTH ticks a cycle. */
extern struct timing { ULong width, dispatch, retire; } timing;

/* The functions that translated code calls. `before`: the instructions since the last call, with this one. */

VG_REGPARM(1) void timing_instructions(UWord before);

/* An access. how: its bytes, and the following bits; how >> TIMING_BEFORE: as `before`. Returns when the value that it
   loads is ready. `ready`: when its address is. */
enum { TIMING_LOADS = 1 << 8, TIMING_STRING = 1 << 9, TIMING_BEFORE = 16 };
VG_REGPARM(3) UWord timing_access(Addr address, UWord how, UWord ready);

/* The word at address is stored; `ready`: when its value is. */
VG_REGPARM(2) void timing_store(Addr address, UWord ready);

/* A conditional branch. how: does it leave the superblock here? Is what is there the next instruction, so that the
   branch is taken where it does not leave? how >> TIMING_BEFORE: as `before`. */
enum { TIMING_EXITS = 1, TIMING_FALLS = 2 };
VG_REGPARM(3) void timing_branch(Addr instruction, UWord how, UWord ready);

/* A jump, call or return whose target is known; an indirect jump or call, after timing_instructions. */
VG_REGPARM(1) void timing_jump(UWord before);
VG_REGPARM(3) void timing_jump_to(Addr target, Addr instruction, UWord ready);

/* Adds to the translation of a superblock the code that passes times on (instrument_timing.c). */

struct timing_block {
  IRSB *out;
  const IRSB *in;
  Int ip, sp, shadow; /* offsets in the guest's state */
  UInt instruction;   /* its number in the superblock */
  UInt before;        /* instructions not yet passed to timing.c */
  Addr address, next; /* of the instruction, and of the one behind it */
  Bool is_string;     /* it is a repeated string instruction */
  Bool branches;      /* it is a conditional branch */
  IRExpr *begin;      /* the time of dispatch where the superblock begins: no register is put down as ready earlier */
  IRExpr *loaded;     /* when the last access's value is ready */
  IRExpr *latest;     /* when the last of the registers that were written is; NULL: none was */
};

void timing_begin_block(struct timing_block *block, IRSB *out, const IRSB *in, const VexGuestLayout *layout);

/* Before an instruction is added, or an element of a repeated string instruction (is_string). */
void timing_mark(struct timing_block *block, const IRStmt *mark, Bool is_string);
/* An access of the statement. how: its bytes, and TIMING_LOADS. guard: as of struct data_access. */
void timing_add_access(struct timing_block *block, IRExpr *address, UInt how, IRExpr *guard);
/* After the statement's accesses were added, before it is. */
void timing_statement(struct timing_block *block, const IRStmt *statement);
void timing_end_block(struct timing_block *block);
