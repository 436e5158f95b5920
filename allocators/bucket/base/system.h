/* SPDX-License-Identifier: MIT */
/* Memory of the operating system: mapped, purged, and counted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maps bytes, a multiple of an OS page, all zero. NULL: no memory. Leaves errno to its callers. */
void *system_map(size_t bytes);

/* Gives OS pages back; they read as zeros afterwards. Returns whether the kernel took them. */
bool system_purge(void *start, size_t bytes);

/* Returns all bytes that were mapped. */
size_t system_bytes(void);

/* Returns memory for the allocator's own tables, all zero, in steps of 64 bytes, never given back. NULL: none. */
void *system_own(size_t bytes);

/* Call around a fork. */
void system_lock(void);
void system_unlock(void);
void system_after_fork(void);
