/* SPDX-License-Identifier: MIT */
/* Which op may run when: waits for other threads' ops, the window; turns are in turns.h, the pace in pace.h.

   Job: hold a thread back until its op may run. Not its job: how sleeping works (gate.h), starting threads (threads.h).
   Invariants, for a legal workload: an op never starts before the ops that its WAITs name; under `window` no thread
   starts an op whose MARK is more than the window ahead of the slowest live thread's. No deadlock: WAITs point
   backwards, and the slowest thread never waits for the window. */
#pragma once

#include "replay/engine/state.h"

/* Call before the first thread. A smaller window is raised to WORKLOAD_MARK_INTERVAL: positions are known only to that
   many ops. Returns 0, or -1 with errno set. */
int order_setup(const struct replay_setup *setup);

/* A thread is about to start (the next op of its starter is not before position); a thread has ended. */
void order_thread_starts(struct replay_thread *thread, uint64_t position);
void order_thread_ends(struct replay_thread *thread);

/* Waits until the thread that the WAIT at word names has completed as many ops as it names. */
void order_wait(struct replay_thread *self, const uint64_t *word);

/* The next op of self is at position: publishes that, and waits for the window. */
void order_mark(struct replay_thread *self, uint64_t position);
