/* SPDX-License-Identifier: MIT */
/* Threads of the workload: started where the program started them, ended where it ended them, with stacks that are not
   the allocator's.

   Job: a pool of stacks and workers, start, exit, joining. Not its job: what a thread does (loop.c), when (order.c).
   Invariants: thread 0 is the process's main thread, as in a program; a stack is used again only after its thread has
   wholly ended; stacks are shared memory, so that they are not in RssAnon. pthread_create itself asks the allocator for
   a few hundred bytes (the thread's table of TLS blocks, freed at join): they are left out of a recording of the
   replay, but count in the allocator's memory, as they do in the program. */
#pragma once

#include "replay/state/engine_state.h"

/* Before the first op. body: replays a thread's stream. Returns 0, or -1 with errno set. */
int threads_setup(void (*body)(struct replay_thread *self));

/* Starts the thread of the workload that word, a START of starter, names. position: lower bound of starter's next op.
   The CPU time it takes is kept apart from that of the stream. */
void threads_start(struct replay_thread *starter, const uint64_t *word, uint64_t position);

/* Runs thread 0 on the calling thread, and returns when all threads have ended. */
void threads_run_all(void);

/* Waits for the exit of those threads whose streams have ended, and takes their stacks back. */
void threads_reap(void);

/* Calls visit for each worker that was ever used. */
void threads_visit_workers(void (*visit)(const struct worker *worker));
