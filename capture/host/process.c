/* SPDX-License-Identifier: MIT */
#include "capture/host/process.h"

#include "capture/host/host_state.h"
#include "capture/host/messages.h"
#include "core/base/assert.h"
#include "core/base/os.h"

#include <errno.h>
#include <sys/mman.h>

static struct process *_Atomic own;

struct process *process_own(void) {
  struct process *process = atomic_load_explicit(&own, memory_order_acquire);
  if (process)
    return process;
  struct process *fresh = process_map_wiped(sizeof *fresh);
  if (!fresh)
    return NULL;
  if (atomic_compare_exchange_strong(&own, &process, fresh))
    return fresh;
  os_unmap(fresh, sizeof *fresh);
  return process;
}

void *process_place(void) {
  return &own;
}

bool process_is_off(void) {
  struct process *process = atomic_load_explicit(&own, memory_order_acquire);
  return process && atomic_load_explicit(&process->state, memory_order_relaxed) == PROCESS_OFF;
}

void process_lock(struct process *process) {
  uint32_t free_word = 0;
  if (atomic_compare_exchange_strong(&process->lock, &free_word, 1))
    return;
  enum { LOCK_WAIT_NS = 10000000 }; /* the unlocking thread may not be allowed to wake others */
  while (atomic_exchange(&process->lock, 2) != 0)
    if (host_sandboxed())
      os_spin_pause();
    else
      os_futex_wait((const uint32_t *)&process->lock, 2, LOCK_WAIT_NS, false);
}

void process_unlock(struct process *process) {
  uint32_t held = atomic_exchange(&process->lock, 0);
  HT_ASSERT(held != 0);
  if (held == 2 && !host_sandboxed())
    os_futex_wake((const uint32_t *)&process->lock, 1, false);
}

void process_stop(struct process *process, const char *why) {
  int error = errno;
  if (atomic_exchange(&process->state, PROCESS_OFF) != PROCESS_OFF && why)
    message_print(why);
  errno = error;
}

void *process_map_wiped(size_t bytes) {
  void *memory = os_map(bytes, false);
  if (!memory)
    return NULL;
  if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
    os_unmap(memory, bytes);
    return NULL;
  }
  return memory;
}
