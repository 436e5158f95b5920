#include "replay/gate.h"

#include "trace/os.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint32_t spin_limit;
static bool have_membarrier;

void gate_setup(uint32_t spins) {
  spin_limit = spins;
  have_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void gate_init(struct gate *gate, uint64_t value) {
  atomic_store_explicit(&gate->value, value, memory_order_relaxed);
  atomic_store_explicit(&gate->wake_at, UINT64_MAX, memory_order_relaxed);
}

void gate_wake(struct gate *gate) {
  atomic_store(&gate->wake_at, UINT64_MAX);
  atomic_fetch_add(&gate->sequence, 1);
  os_futex_wake((const uint32_t *)&gate->sequence, INT_MAX, false);
}

static bool spin_for(const struct gate *gate, uint64_t value) {
  for (uint32_t spin = 0; spin < spin_limit; spin++) {
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

void gate_wait(struct gate *gate, uint64_t value, _Atomic uint32_t *blocked) {
  if (spin_for(gate, value))
    return;
  atomic_fetch_add_explicit(blocked, 1, memory_order_relaxed);
  for (;;) {
    uint32_t sequence = atomic_load(&gate->sequence);
    ask_for(gate, value);
    if (have_membarrier)
      syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    if (gate_value(gate) >= value)
      break;
    os_futex_wait((const uint32_t *)&gate->sequence, sequence, have_membarrier ? 0 : 100000, false);
  }
  atomic_fetch_sub_explicit(blocked, 1, memory_order_relaxed);
}
