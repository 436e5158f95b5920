/* SPDX-License-Identifier: MIT */
#include "replay/engine/wait.h"

#include "core/base/os.h"

#include <inttypes.h>

void wait_counted(struct replay_thread *self, struct gate *gate, uint64_t value, bool fenced) {
  struct worker *worker = self->worker;
  uint64_t begin_cycles = os_cycles(), begin_ns = os_thread_cpu_ns();
  gate_wait(gate, value, fenced);
  worker->waits++;
  worker->wait_cycles += os_cycles() - begin_cycles;
  worker->wait_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

uint32_t wait_target(const uint64_t *word, uint64_t *ops) {
  uint32_t thread = word_wait_thread(*word);
  *ops = word_wait_ops(*word);
  if (thread >= engine.workload.header.threads || *ops > engine.workload.op_counts[thread])
    engine_fail(word, "waits for op %" PRIu64 " of thread %" PRIu32 ", which has no such op", *ops, thread);
  return thread;
}

void wait_for_turn(struct replay_thread *self, uint64_t granted) {
  if (gate_value(&self->granted) < granted)
    wait_counted(self, &self->granted, granted, true);
}
