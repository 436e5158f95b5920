/* SPDX-License-Identifier: MIT */
/* dlclose: after it, another library may get the addresses of the closed one. */
#include "capture/host/host_state.h"
#include "capture/host/process.h"
#include "capture/host/stacks/stack.h"
#include "core/base/os.h"

#include <dlfcn.h>
#include <errno.h>

void stack_wait_for_collector(void) {
  enum { TRIES = 5, WAIT_NS = 20000000 };
  struct stack_area *area = stack_settings.area;
  int error = errno;
  if (!area || host_state.flags & ATTACH_DROP || process_is_off())
    return;
  uint32_t requested = atomic_fetch_add(&area->requested, 1) + 1;
  for (int i = 0; i < TRIES && !host_collector_died(); i++) {
    uint32_t answered = atomic_load(&area->answered);
    if ((int32_t)(answered - requested) >= 0)
      break;
    host_wake_collector();
    os_futex_wait((const uint32_t *)&area->answered, answered, WAIT_NS, true);
  }
  errno = error;
}

/* Unwind rules of code that may be unmapped must be computed again, so their tags are made invalid. */
static void forget_rules(struct stack_area *area) {
  for (uint32_t i = 0; i < STACK_RULES; i++)
    if (atomic_load_explicit(&area->rules[i].instruction, memory_order_relaxed))
      atomic_store_explicit(&area->rules[i].rule, 0, memory_order_relaxed);
  atomic_fetch_add(&area->generation, 1);
}

__attribute__((visibility("default"))) int dlclose(void *handle) {
  static int (*_Atomic real_dlclose)(void *);
  if (!real_dlclose) {
    union {
      void *data;
      int (*code)(void *);
    } symbol = {.data = dlsym(RTLD_NEXT, "dlclose")};
    real_dlclose = symbol.code;
  }
  stack_wait_for_collector();
  int result = real_dlclose(handle);
  if (stack_settings.area)
    forget_rules(stack_settings.area);
  return result;
}
