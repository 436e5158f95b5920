/* SPDX-License-Identifier: MIT */
#pragma once
/* Memory that the recorder shares with a recorded process.

   Job: make and map it. Not its job: passing the descriptor on (collector/connections.h). Invariant: its size is fixed,
   by seals: a host that shortened it would kill the recorder with SIGBUS. */
#include <stddef.h>

/* Returns a descriptor of new, zeroed memory, close-on-exec, and maps it at *memory; both are the caller's. name: shown
   in /proc/PID/maps. Returns -1 with errno set, and *memory unchanged, if there is none. */
int shared_memory_open(const char *name, size_t size_bytes, void **memory);
