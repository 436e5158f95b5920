/* SPDX-License-Identifier: MIT */
/* Threads of the workload: started where the program started them, ended where it ended them, with stacks that are not
   the allocator's.

   Job: a pool of stacks and workers, start, exit, joining. Invariants: thread 0 is the process's main thread, as in a
   program; a stack is reused only after its thread has completely ended; stacks are shared memory, so that they are not
   in RssAnon. pthread_create itself requests a few hundred bytes from the allocator (the thread's table of TLS blocks,
   freed at join). These are left out of a recording of the replay, but count as the allocator's memory, as they do in
   the program. */
#pragma once

#include "replay/engine/state.h"

/* Call before the first op. body: replays a thread's stream. Returns 0, or -1 with errno set. */
int threads_setup(void (*body)(struct replay_thread *self));

/* Starts the workload's thread that word, a START of starter, names. position: lower bound of starter's next op. The
   CPU time of starting is kept separate from the stream's. */
void threads_start(struct replay_thread *starter, const uint64_t *word, uint64_t position);

/* Replays thread 0's stream `rounds` times on the calling thread, without the pass, and releases what lives after each:
   then the heap has grown and is warm. Call after threads_setup, before threads_run_all, for workloads of one thread
   without isolated objects. body: as of threads_setup. */
void threads_warm_up(uint64_t rounds, void (*body)(struct replay_thread *self));

/* Runs thread 0 on the calling thread, and returns when all threads have ended. */
void threads_run_all(void);

/* Waits for the exit of all threads whose streams have ended, and takes their stacks back. */
void threads_reap(void);

/* Calls visit for each worker that was ever used. */
void threads_visit_workers(void (*visit)(const struct worker *worker));
