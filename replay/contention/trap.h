/* SPDX-License-Identifier: MIT */
/* Sees every wait of this process's threads in the kernel, from within the process.

   Job: a seccomp filter that turns the system calls in which a thread waits (futex waits, sched_yield, nanosleep and
   their kin) into SIGSYS, whose handler makes the call itself and says how long it took. Not its job: whose wait it
   was (waits.h). Other system calls are not stopped, and no tracer is needed; a wait that blocks costs some 2 µs more.
   Alternatives: ptrace stops a thread twice for each wait, through another process; user notification (notify.h) does
   not tell when the wait is over; syscall user dispatch would stop all system calls of a thread, on x86-64 alone.
   Invariants: only threads that begin afterwards, and the caller's, are seen; the filter stays until the process ends.
   The kernel kills a process whose SIGSYS is blocked when the filter raises it, so rt_sigprocmask is taken over as
   well, and never blocks it (pthread_create, for one, blocks all signals for a while). Handlers that run with SIGSYS in
   their sa_mask, and waits of ppoll and the like with a mask, are not covered. */
#pragma once

#include "replay/state/contention_figures.h"

#include <stdbool.h>
#include <stdint.h>

struct trapped_wait {
  enum wait_kind kind;
  uint64_t address; /* as of struct wait_row */
  bool at_once;     /* refused: the futex's word had changed */
  uint64_t time_ns;
};

/* Installs handler and filter; `waited` is called in the thread that waited, after its wait, in a signal handler.
   Returns 0, or -1 with errno set: the kernel or a sandbox does not allow it. */
int trap_install(void (*waited)(const struct trapped_wait *wait));

/* Nanoseconds that a wait takes longer for being seen: of waits that end at once, in the fastest of some rounds, as
   others may run meanwhile. They are reported to `waited` like any others. */
uint64_t trap_measure_ns(void);
