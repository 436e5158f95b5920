/* SPDX-License-Identifier: MIT */
/* How a process ended and what it used in total, as far as the kernel still has it afterwards.

   Not its job: reaping. Invariants: reads only; never waits. */
#pragma once

#include "core/trace/write/trace_write.h"

#include <stdbool.h>

struct process_end {
  bool status_known;
  int status; /* as wait(2) gives it */
  bool usage_known;
  struct trace_final usage; /* without the peak, which only the process that reaps it receives */
  bool reaped_children;     /* the peak that wait4 gives may then be one of theirs */
};

/* Looks at a process that has ended: at a zombie through stat_fd (its /proc stat, opened while it lived), at a process
   that its parent has reaped through pid_fd, which gives the status since Linux 6.15. Either may be -1. */
struct process_end process_end_look(int pid_fd, int stat_fd);
