/* SPDX-License-Identifier: MIT */
/* A number that only rises and that other threads may wait for: how far a thread has come.

   Job: publish at the cost of one store and one load; wait by a short spin, then a futex, since threads may outnumber
   cores. Not its job: what the number means (order.c). Invariants: a thread that sees a value sees all that its
   publisher did before; no waiter misses its wake-up for long. A publisher's load of wake_at may overtake its own store
   of the value, by the time that the processor's store buffer needs to drain, and then miss a waiter that arrives at
   this moment. A fence would cost 5 ns on every replayed op, so the waiter's first sleep is short instead: after it,
   its wake_at is visible. (Before, waiters made all threads pass a barrier with membarrier(2): its interrupts took a
   quarter of the replay of a recording with 393 threads.) A gate whose value is seldom published is `fenced`: it has no
   such gap. Each sleeper has its own futex word and is woken when its own value is reached: when sleepers shared a
   gate's word, two of three woke to sleep again. */
#pragma once

#include "core/base/assert.h"
#include "replay/engine/result.h"

/* Spins of a waiter before it sleeps: about 2 µs if there is a processor for each running thread, else only a few, as
   the awaited thread may need this processor. */
enum { SPINS = 100, CROWDED_SPINS = 4 };

/* How many threads run: `live` threads of which `blocked` sleep at gates. The counters are the caller's; it updates
   `live`, gate_wait updates `blocked`. */
struct crowd {
  _Atomic uint32_t *live, *blocked;
  uint32_t processors;
};

/* Call once per process, before gates are used. */
void gate_setup(struct crowd crowd);

void gate_init(struct gate *gate, uint64_t value);

/* Wakes the sleepers of a gate that has reached wake_at. */
void gate_wake(struct gate *gate);

/* Publishes a value. One publisher at a time; values must not fall. For fenced gates. */
static inline void gate_publish_fenced(struct gate *gate, uint64_t value) {
  HT_ASSERT(value >= atomic_load(&gate->value));
  atomic_store(&gate->value, value);
  if (value >= atomic_load(&gate->wake_at))
    gate_wake(gate);
}

/* The same for gates that are not fenced: cheap enough for each op. */
static inline void gate_publish(struct gate *gate, uint64_t value) {
  atomic_store_explicit(&gate->value, value, memory_order_release);
  /* Keeps the compiler from moving the load up; for the processor see above. */
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(value >= atomic_load_explicit(&gate->wake_at, memory_order_relaxed), 0))
    gate_wake(gate);
}

/* The same where no thread waits. */
static inline void gate_show(struct gate *gate, uint64_t value) {
  atomic_store_explicit(&gate->value, value, memory_order_relaxed);
}

static inline uint64_t gate_value(const struct gate *gate) {
  return atomic_load_explicit(&gate->value, memory_order_acquire);
}

/* Returns once the gate's value is at least `value`. fenced: whether the gate is. */
void gate_wait(struct gate *gate, uint64_t value, bool fenced);

/* Returns the CPU time that the calling thread has spent on waking other threads, in ns. */
uint64_t gate_wake_cpu_ns(void);
