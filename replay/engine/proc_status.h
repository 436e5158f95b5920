/* SPDX-License-Identifier: MIT */
/* Memory figures of a process from /proc/PID/status. No malloc; safe in the engine and in its parent. */
#pragma once

#include <stdint.h>

struct proc_status {
  uint64_t rss_anon_bytes, vm_size_bytes;
  uint64_t vm_hwm_bytes; /* the kernel's own maximum of all of RSS since exec */
};

/* Reads from an open /proc/PID/status. Returns 0, or -1: it can't be read. */
int proc_status_read(int fd, struct proc_status *status);
