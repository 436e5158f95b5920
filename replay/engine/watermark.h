/* SPDX-License-Identifier: MIT */
/* A number that only rises and that other threads may wait for: how far a thread has come.

   Job: publish at the cost of one store and one load; wait by a short spin, then a futex, since threads may outnumber
   cores. Invariants: a thread that sees a value sees all that its publisher did before; no waiter misses its wake-up
   for long. A publisher's load of wake_at may overtake its own store of the value, by the time that the processor's
   store buffer needs to drain, and then miss a waiter that arrives at this moment. A fence would cost 5 ns on every
   replayed op, so the waiter's first sleep is short instead: after it, its wake_at is visible. (Before, waiters made
   all threads pass a barrier with membarrier(2): its interrupts took a quarter of the replay of a recording with 393
   threads.) A watermark whose value is seldom published is `fenced`: it has no such gap. Each sleeper has its own futex
   word and is woken when its own value is reached: when sleepers shared a watermark's word, two of three woke to sleep
   again. */
#pragma once

#include "core/base/assert.h"
#include "replay/engine/result.h"

/* Spins of a waiter before it sleeps: about 2 µs if there is a processor for each running thread, else only a few, as
   the awaited thread may need this processor. */
enum { SPINS = 100, CROWDED_SPINS = 4 };

/* How many threads run: `live` threads of which `blocked` sleep at watermarks. The counters are the caller's; it
   updates `live`, watermark_wait updates `blocked`. */
struct crowd {
  _Atomic uint32_t *live, *blocked;
  uint32_t processors;
};

/* Call once per process, before watermarks are used. */
void watermark_setup(struct crowd crowd);

void watermark_init(struct watermark *watermark, uint64_t value);

/* Wakes the sleepers of a watermark that has reached wake_at. */
void watermark_wake(struct watermark *watermark);

/* Publishes a value. One publisher at a time; values must not fall. For fenced watermarks. */
static inline void watermark_publish_fenced(struct watermark *watermark, uint64_t value) {
  HT_ASSERT(value >= atomic_load(&watermark->value));
  atomic_store(&watermark->value, value);
  if (value >= atomic_load(&watermark->wake_at))
    watermark_wake(watermark);
}

/* The same for watermarks that are not fenced: cheap enough for each op. */
static inline void watermark_publish(struct watermark *watermark, uint64_t value) {
  atomic_store_explicit(&watermark->value, value, memory_order_release);
  /* Keeps the compiler from moving the load up; for the processor see above. */
  atomic_signal_fence(memory_order_seq_cst);
  if (__builtin_expect(value >= atomic_load_explicit(&watermark->wake_at, memory_order_relaxed), 0))
    watermark_wake(watermark);
}

/* The same where no thread waits. */
static inline void watermark_show(struct watermark *watermark, uint64_t value) {
  atomic_store_explicit(&watermark->value, value, memory_order_relaxed);
}

static inline uint64_t watermark_value(const struct watermark *watermark) {
  return atomic_load_explicit(&watermark->value, memory_order_acquire);
}

/* Returns once the watermark's value is at least `value`. fenced: whether the watermark is. */
void watermark_wait(struct watermark *watermark, uint64_t value, bool fenced);

/* Returns the CPU time that the calling thread has spent on waking other threads, in ns. */
uint64_t watermark_wake_cpu_ns(void);
