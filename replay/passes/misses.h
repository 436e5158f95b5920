/* SPDX-License-Identifier: MIT */
/* The misses pass, in the engine: it runs under our Valgrind tool (observe/valgrind, mode replay), which simulates
   caches and TLBs for the accesses that the program made when it was recorded, at the addresses that this allocator
   gives.

   Job: report to the tool where the table of objects is, and before each op that an op comes. Not its job: the accesses
   (the tool reads their stream itself, so that nothing of the engine's enters the caches), starting the engine under
   Valgrind (replay/parent/miss_counter.h). Invariants: the order is the recorded one; each op of the workload is
   announced exactly once, skipped ones too; nothing is written to objects, as the program's own writes are in the
   stream. */
#pragma once

/* Reports to the tool that the process's start-up is over. The engine's first action. */
void misses_started(void);

/* Reports to the tool, if the engine runs under it. Before the first op; engine.objects is there. */
void misses_begin(void);

/* An op comes: here the tool plays the stream. */
void misses_before_op(void);
