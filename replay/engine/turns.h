/* SPDX-License-Identifier: MIT */
/* Orders in which one thread runs at a time: the recorded one, and a random legal one.

   Job: pass the turn from thread to thread. Not its job: orders in which threads run freely (order.h).
   Invariants: one thread has the turn; only this thread reads the schedule, picks at random, starts threads and waits
   for the exit of ended ones, so that each run is the same. Under `recorded` turns are the schedule's runs. Under
   `random=SEED` each turn goes to a live thread picked at random among those whose next op waits for nothing, each with
   the same chance, for 1 to TURN_OPS ops or until it has to wait: the same seed gives the same history, and each op
   comes after those that its WAITs name. */
#pragma once

#include "replay/engine/gate.h"
#include "replay/engine/state.h"

enum { TURN_OPS = 64 };

/* Call before the first thread. Returns 0, or -1 with errno set. */
int turns_setup(enum replay_order order, uint64_t seed);

/* turns_thread_starts is called by the starter of a thread that will take turns, turns_begin by the thread itself
   before its first word. */
void turns_thread_starts(struct replay_thread *thread);
void turns_begin(struct replay_thread *self);

/* self has used up the ops that it was granted. Passes the turn on if self has it, and waits until it comes back.
   Returns how many ops self may have completed before it must call this again. completed: ops of self so far. */
uint64_t turns_next(struct replay_thread *self, uint64_t completed);

/* The next op of self must come after the op that the WAIT at word names: lets other threads run first. Returns whether
   other threads may have run meanwhile. */
bool turns_wait(struct replay_thread *self, const uint64_t *word);

/* self has ended, and other threads no longer wait for it: passes the turn on. */
void turns_end(struct replay_thread *self, uint64_t completed);

/* Waits of any order. wait_counted waits until the gate is at least value, and adds the cost to the thread's worker, so
   that waiting is not part of the replay's time; for waits that are not over at once. fenced: whether the gate is
   (gate.h). wait_target returns the thread that a WAIT names, and its ops; ends the process if either does not exist.
 */
void wait_counted(struct replay_thread *self, struct gate *gate, uint64_t value, bool fenced);
uint32_t wait_target(const uint64_t *word, uint64_t *ops);
