#include "replay/state/gate.h"

#include "core/base/os.h"

#include <limits.h>

/* A waiter's first sleep and its longest: by then every store buffer has drained, so that the longer ones are not
   needed to find a missed wake-up; that they end at all is caution. */
static const uint64_t FIRST_SLEEP_NS = 100000, LAST_SLEEP_NS = 100000000;

static struct crowd crowd;

static __thread uint64_t wake_cpu_ns;

void gate_setup(struct crowd who) {
  crowd = who;
}

void gate_init(struct gate *gate, uint64_t value) {
  atomic_store_explicit(&gate->value, value, memory_order_relaxed);
  atomic_store_explicit(&gate->wake_at, UINT64_MAX, memory_order_relaxed);
}

void gate_wake(struct gate *gate) {
  uint64_t begin_ns = os_thread_cpu_ns();
  atomic_store(&gate->wake_at, UINT64_MAX);
  atomic_fetch_add(&gate->sequence, 1);
  os_futex_wake((const uint32_t *)&gate->sequence, INT_MAX, false);
  wake_cpu_ns += os_thread_cpu_ns() - begin_ns;
}

uint64_t gate_wake_cpu_ns(void) {
  return wake_cpu_ns;
}

/* Waits at fenced gates are long: no spinning there. */
static bool spin_for(const struct gate *gate, uint64_t value, bool fenced) {
  uint32_t live = atomic_load_explicit(crowd.live, memory_order_relaxed);
  uint32_t blocked = atomic_load_explicit(crowd.blocked, memory_order_relaxed);
  uint32_t spins = fenced ? 0 : live <= crowd.processors + blocked ? SPINS : CROWDED_SPINS;
  for (uint32_t spin = 0; spin < spins; spin++) {
    if (gate_value(gate) >= value)
      return true;
    os_spin_pause();
  }
  return gate_value(gate) >= value;
}

/* Lowers wake_at to value, unless it is lower already. */
static void ask_for(struct gate *gate, uint64_t value) {
  uint64_t wake_at = atomic_load(&gate->wake_at);
  while (value < wake_at && !atomic_compare_exchange_weak(&gate->wake_at, &wake_at, value))
    ;
}

void gate_wait(struct gate *gate, uint64_t value, bool fenced) {
  if (spin_for(gate, value, fenced))
    return;
  atomic_fetch_add_explicit(crowd.blocked, 1, memory_order_relaxed);
  for (uint64_t sleep_ns = FIRST_SLEEP_NS;;) {
    uint32_t sequence = atomic_load(&gate->sequence);
    ask_for(gate, value);
    if (atomic_load(&gate->value) >= value)
      break;
    os_futex_wait((const uint32_t *)&gate->sequence, sequence, fenced ? 0 : sleep_ns, false);
    sleep_ns = sleep_ns < LAST_SLEEP_NS ? 10 * sleep_ns : LAST_SLEEP_NS;
  }
  atomic_fetch_sub_explicit(crowd.blocked, 1, memory_order_relaxed);
}
