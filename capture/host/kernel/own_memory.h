/* SPDX-License-Identifier: MIT */
/* The library's own memory in the program: neither in core dumps, nor locked with the program's, nor counted against
   its RLIMIT_MEMLOCK.

   A list of the mappings is inherited by a fork child, as the mappings are. Invariants: mlockall, which is an entry
   point for this alone, succeeds where it would without us, and locks what it would; what is mapped later is not
   locked either. In a running process that was attached to, this holds in threads without filters of system calls.
   Async-signal-safe, takes no lock, keeps errno but where told. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum memory_kind { MEMORY_PRIVATE, MEMORY_SHARED /* does not count as the program's RssAnon, as a rule */ };

/* NULL on failure, with errno; where a filter of system calls forbids it, none is made. */
void *memory_map(size_t bytes, enum memory_kind kind);
/* Shared memory of a file. */
void *memory_map_file(size_t bytes, int fd);
/* Private memory that is wiped in a fork child. */
void *memory_map_wiped(size_t bytes);
/* memory may be NULL. */
void memory_unmap(void *memory, size_t bytes);

/* Takes memory that was mapped otherwise for our own. */
void memory_own(void *memory, size_t bytes);
/* Bytes of it that are mapped now. */
uint64_t memory_own_bytes(void);
/* A part of our memory has been mapped anew. */
void memory_mark(void *memory, size_t bytes);

/* In a running process: finds out whether what is mapped from now on is locked, and unlocks what is ours. */
struct process;
void memory_follow_lock(struct process *process);

/* As mlockall, but for our memory. Sets errno. */
int memory_lock_all(int flags);
