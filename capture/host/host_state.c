/* SPDX-License-Identifier: MIT */
#include "capture/host/host_state.h"

#include "core/base/os.h"

#include <linux/futex.h>

struct host_state host_state;

bool host_collector_died(void) {
  return atomic_load_explicit(&host_state.tables->control.collector_futex, memory_order_relaxed) & FUTEX_OWNER_DIED;
}

void host_wake_collector(void) {
  struct control *control = &host_state.tables->control;
  if (host_sandboxed()) /* the collector wakes on its own, but later */
    return;
  if (atomic_load_explicit(&control->sleeping, memory_order_relaxed) && atomic_exchange(&control->sleeping, 0)) {
    atomic_fetch_add(&control->wake, 1);
    os_futex_wake((const uint32_t *)&control->wake, 1, true);
  }
}
