/* SPDX-License-Identifier: MIT */
/* Which op may run when: waits for other threads' ops, the window, the pace, turns.

   Job: hold a thread back until its op may run. Invariants, for a legal workload: an op never starts before the ops
   that its WAITs name; under `window` no thread starts an op whose MARK is more than the window ahead of the slowest
   live thread's; under `paced` ops start no sooner than they did in the recording, at SPEED times its pace: between two
   TIME words they run as fast as they can, and a thread that is late makes up for it only by sleeping less. No
   deadlock: WAITs point backwards, and the slowest thread never waits for the window. */
#pragma once

#include "replay/engine/state.h"
#include "replay/engine/watermark.h"

/* Call before the first thread. A smaller window is raised to WORKLOAD_MARK_INTERVAL: positions are known only to that
   many ops. Returns 0, or -1 with errno set. */
int order_setup(const struct run_spec *spec);

/* A thread is about to start (the next op of its starter is not before position); a thread has ended. */
void order_thread_starts(struct replay_thread *thread, uint64_t position);
void order_thread_ends(struct replay_thread *thread);

/* Waits until the thread that the WAIT at word names has completed as many ops as it names. */
void order_wait(struct replay_thread *self, const uint64_t *word);

/* The next op of self is at position: publishes that, and waits for the window. */
void order_mark(struct replay_thread *self, uint64_t position);

/* Returns whether the workload has recorded times. */
bool pace_times_known(void);

/* When the recording began and ended, in ns; 0, 0: the workload has no times. */
void pace_recorded_span(uint64_t *first_ns, uint64_t *last_ns);

/* Call before the first op. speed: recorded seconds per second, > 0. Returns 0, or -1: there are no recorded times. */
int pace_setup(double speed);

/* The replay begins now. */
void pace_begin(void);

/* The next op of self was recorded at time_ns. */
void pace_wait(struct replay_thread *self, uint64_t time_ns);

/* Orders in which one thread runs at a time: the recorded one, and a random legal one.

   Job: pass the turn from thread to thread. Invariants: one thread has the turn; only this thread reads the schedule,
   picks at random, starts threads and waits for the exit of ended ones, so that each run is the same. Under `recorded`
   turns are the schedule's runs. Under `random=SEED` each turn goes to a live thread picked at random among those whose
   next op waits for nothing, each with the same chance, for 1 to TURN_OPS ops or until it has to wait: the same seed
   gives the same history, and each op comes after those that its WAITs name. */

enum { TURN_OPS = 64 };

/* A thread that takes turns calls this before its first word. */
void turns_begin(struct replay_thread *self);

/* self has used up the ops that it was granted. Passes the turn on if self has it, and waits until it comes back.
   Returns how many ops self may have completed before it must call this again. completed: ops of self so far. */
uint64_t turns_next(struct replay_thread *self, uint64_t completed);

/* The next op of self must come after the op that the WAIT at word names: lets other threads run first. Returns whether
   other threads may have run meanwhile. */
bool turns_wait(struct replay_thread *self, const uint64_t *word);

/* self has ended, and other threads no longer wait for it: passes the turn on. */
void turns_end(struct replay_thread *self, uint64_t completed);
