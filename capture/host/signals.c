/* SPDX-License-Identifier: MIT */
#include "capture/host/signals.h"

#include "capture/host/host_state.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The value of *mask where nothing was blocked. */
#define NOT_BLOCKED (~(uint64_t)0)

void signals_block(uint64_t *mask) {
  if (host_sandboxed()) {
    *mask = NOT_BLOCKED;
    return;
  }
  uint64_t all = ~(uint64_t)0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, mask, sizeof all);
}

void signals_restore(const uint64_t *mask) {
  if (host_sandboxed() && *mask == NOT_BLOCKED)
    return;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, mask, NULL, sizeof *mask);
}
