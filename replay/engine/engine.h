/* SPDX-License-Identifier: MIT */
/* The engine: the process that replays.

   Job: set everything up, start and end threads, measure the whole replay. Not its job: one op (loop.c), threads
   (threads.c), the order of ops among threads (order.h, turns.h), memory (replay/memory/), what the parent does
   (replay/parent/run.c).
   Invariants: nothing of the engine calls malloc; its tables are shared mappings (RssShmem), faulted in before the
   first op, so that RssAnon minus the baseline is the allocator's; errors end the process after they are stored in the
   shared result. */
#pragma once

/* The engine process's main: fds of the shared area and of the workload. Returns its exit status. */
int engine_main(int result_fd, int workload_fd);
