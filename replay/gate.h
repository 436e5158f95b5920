/* A number that only rises and that other threads may wait for: how far a thread has come.

   Job: publish at the cost of one store and one load; wait by a short spin, then a futex, since threads may outnumber
   cores. Not its job: what the number means (order.c). Invariants: whoever sees a value sees all that its publisher did
   before; no waiter sleeps through its wake-up: a waiter writes wake_at, then makes every thread of the process pass a
   full barrier (membarrier), then looks again. So the publisher needs no fence between its store and its look at
   wake_at: a fence there would cost 5 ns on every replayed op. Where the kernel has no membarrier, sleeps are cut to
   100 µs instead. */
#ifndef REPLAY_GATE_H
#define REPLAY_GATE_H

#include "replay/result.h"

/* Spins of a waiter before it sleeps: about 2 µs where there is a processor for each thread, else a token few, as the
   thread that is waited for may need this very processor. */
enum { SPINS = 100, CROWDED_SPINS = 4 };

/* Once per process, before gates are used: how long waiters spin (0: not at all, threads outnumber cores). */
void gate_setup(uint32_t spins);

void gate_init(struct gate *gate, uint64_t value);

/* Wakes the sleepers of a gate that has reached wake_at. */
void gate_wake(struct gate *gate);

/* One publisher at a time; values must not fall. */
static inline void gate_publish(struct gate *gate, uint64_t value) {
  atomic_store_explicit(&gate->value, value, memory_order_release);
  /* Keeps the compiler from moving the load up; the waiter's membarrier takes care of the processor. */
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(value >= atomic_load_explicit(&gate->wake_at, memory_order_relaxed), 0))
    gate_wake(gate);
}

static inline uint64_t gate_value(const struct gate *gate) {
  return atomic_load_explicit(&gate->value, memory_order_acquire);
}

/* Returns once the gate's value is at least `value`. blocked: incremented while the caller sleeps. */
void gate_wait(struct gate *gate, uint64_t value, _Atomic uint32_t *blocked);

#endif
