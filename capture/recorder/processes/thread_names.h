/* SPDX-License-Identifier: MIT */
/* Names of a process's threads, for recordings with --describe.

   A thread's name is set by the thread or another one, mostly soon after its start, and may change. So it is read at
   the thread's first event and then less and less often; a new name goes into the trace. In the recorder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zero: nothing is known of the thread. */
struct thread_name {
  char text[32];
  uint64_t due_ns; /* of os_monotonic_ns */
  uint64_t wait_ns;
};

/* Reads the name if it is due. tid: the kernel's, in process pid. Returns whether the name is new. */
bool thread_name_look(struct thread_name *name, int pid, uint32_t tid, uint64_t now_ns);
