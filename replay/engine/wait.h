/* SPDX-License-Identifier: MIT */
/* Waits of a replaying thread for another one, counted.

   Job: sleep at a gate and add the cost to the thread's worker, so that waiting is not part of the replay's time; read
   WAIT words. Not its job: which wait is due (order.h, turns.h), how sleeping works (gate.h). */
#pragma once

#include "replay/engine/gate.h"
#include "replay/engine/state.h"

/* Waits until the gate is at least value. For waits that are not over at once. fenced: whether the gate is (gate.h). */
void wait_counted(struct replay_thread *self, struct gate *gate, uint64_t value, bool fenced);

/* Returns the thread that a WAIT names, and its ops; ends the process if either does not exist. */
uint32_t wait_target(const uint64_t *word, uint64_t *ops);

/* Waits until the gate `granted` of self is at least granted. */
void wait_for_turn(struct replay_thread *self, uint64_t granted);
