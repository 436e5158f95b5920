/* SPDX-License-Identifier: MIT */
/* The misses pass, in the engine: it runs under our Valgrind tool (observe/valgrind, mode replay), which simulates
   caches and TLBs for the accesses that the program made when it was recorded, at the addresses that this allocator
   returned.

   Job: report to the tool where the table of objects is, and announce each op before it is made. Not its job: the
   accesses (the tool reads their stream itself, so that the engine's accesses do not enter the caches), starting the
   engine under Valgrind (replay/passes/miss_counter.h). Invariants: the order is the recorded one; each op of the
   workload is announced exactly once, skipped ones too; nothing is written to objects, as the program's own writes are
   in the stream. */
#pragma once

/* Reports to the tool that the process's start-up is over. The engine's first action. */
void misses_started(void);

/* Reports the table to the tool, if the engine runs under it. Call before the first op, when engine.objects exists. */
void misses_begin(void);

/* Call before each op: here the tool plays the stream. */
void misses_before_op(void);
