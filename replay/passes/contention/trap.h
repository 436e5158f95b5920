/* SPDX-License-Identifier: MIT */
/* Observes every wait of this process's threads in the kernel, from within the process.

   Job: a seccomp filter that turns the system calls in which a thread waits (futex waits, sched_yield, nanosleep and
   their kin) into SIGSYS, whose handler makes the call itself and reports how long it took. Other system calls are not
   stopped, and no tracer is needed; a wait that blocks costs about 2 µs more. Alternatives: ptrace stops a thread twice
   for each wait, through another process; user notification (core/system/process.h) does not report when the wait is
   over; syscall user dispatch would stop all system calls of a thread, and exists on x86-64 only. Invariants: only the
   calling thread and threads that begin afterwards are observed; the filter stays until the process ends. The kernel
   kills a process whose SIGSYS is blocked when the filter raises it, so rt_sigprocmask is intercepted as well, and
   never blocks SIGSYS (pthread_create, for example, blocks all signals for a while). Handlers that run with SIGSYS in
   their sa_mask, and waits of ppoll and the like with a mask, are not covered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a thread waited: for a lock's word, by yielding its processor, for a time. */
enum wait_kind { WAIT_FUTEX, WAIT_YIELD, WAIT_SLEEP, WAIT_KINDS };

struct trapped_wait {
  enum wait_kind kind;
  uint64_t address; /* as in struct wait_row */
  bool at_once;     /* refused: the futex's word had changed */
  uint64_t time_ns;
};

/* Installs handler and filter; `waited` is called in the thread that waited, after its wait, in a signal handler.
   Returns 0, or -1 with errno set: the kernel or a sandbox does not allow it. */
int trap_install(void (*waited)(const struct trapped_wait *wait));

/* Returns the nanoseconds by which observing prolongs a wait: measured with waits that end at once, in the fastest of
   some rounds, as other threads may run meanwhile. These waits are reported to `waited` like any others. */
uint64_t trap_measure_ns(void);
