/* SPDX-License-Identifier: MIT */
/* Waits of a replaying thread for another one, counted.

   Job: sleep at a gate and add what it cost to the thread's worker, so that waiting is no part of the replay's time;
   read what a WAIT word asks for. Not its job: which wait is due (order.h, turns.h), how sleeping works (gate.h). */
#pragma once

#include "replay/state/engine_state.h"
#include "replay/state/gate.h"

/* Waits until the gate is at least value. For waits that are not over at once. fenced: the gate is (gate.h). */
void wait_counted(struct replay_thread *self, struct gate *gate, uint64_t value, bool fenced);

/* The thread that a WAIT names, and its ops; ends the process if there are none such. */
uint32_t wait_target(const uint64_t *word, uint64_t *ops);

/* Waits until the gate `granted` of self is at least that. */
void wait_for_turn(struct replay_thread *self, uint64_t granted);
