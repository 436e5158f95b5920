/* SPDX-License-Identifier: MIT */
/* Counts the allocator's system calls (mmap, munmap, mremap, madvise, brk) from the parent, by seccomp user
   notification.

   Job: install the filter in the child before it becomes the engine, answer each notification with "go on", separate
   the allocator's calls from others, note the position of each, and read the process's memory before a call that may
   give some back. RssAnon and VmSize fall only there, so the largest reading is their peak, exactly so if one thread
   runs at a time. (With two exceptions: memory given back by MADV_FREE goes later, when memory is short; and swap.) Not
   its job: results of the calls (the kernel does not report them; failed ones count too). Counted as the allocator's
   calls: before the engine's main, all but the dynamic linker's own (by the address of the instruction); while the
   engine sets up, none, as it calls no allocator then; during the replay, all but madvise on the workload's mapping,
   the only such call that the engine makes. Each notification costs the child about 10 µs, a reading twice that, so the
   filter is used in the memory pass only. */
#pragma once

#include "core/system/process.h"
#include "replay/engine/counted_syscalls.h"
#include "replay/engine/result.h"

#include <sys/types.h>

/* The names in results. */
extern const char *const syscall_names[COUNTED_SYSCALLS];

enum { EARLY_CALLS = 4096, SYSCALL_ROWS = 16384 };

/* A call during the replay. */
struct syscall_row {
  uint64_t position; /* ops done before it */
  uint64_t bytes;
  enum counted_syscall number;
};

struct syscalls {
  int listener;                /* -1: none */
  const char *missing_because; /* why there is no listener; NULL if there is one */
  int status_fd;               /* the engine's /proc/PID/status */
  uint64_t counts[COUNTED_SYSCALLS], bytes[COUNTED_SYSCALLS];
  uint64_t emptying_counts[COUNTED_SYSCALLS]; /* of PHASE_EMPTYING, not in other counts */
  struct proc_status peak;    /* rss_anon_bytes and vm_size_bytes: the largest seen before a call during the replay */
  uint64_t rss_peak_position; /* ops done by then */
  struct syscall_row *rows;   /* the first SYSCALL_ROWS during the replay; syscalls_finish's caller frees them */
  uint64_t row_count, rows_lost;
  uint64_t break_address; /* last one set; 0: none yet */
  uint32_t early_count;   /* calls made before the linker's addresses are known */
  struct early_call {
    uint64_t caller, bytes;
    enum counted_syscall number;
  } early[EARLY_CALLS];
};

/* In the child, between fork and exec: installs the filter and sends the listener over the socket. Returns 0, or -1
   with errno set; then the socket is closed, which the parent detects. Async-signal-safe. */
int syscalls_install(int socket);

/* In the parent: receives the listener. */
void syscalls_accept(struct syscalls *counts, int socket, pid_t engine);

/* Answers one notification, if there is one. Does not block if poll said that the listener is readable. */
void syscalls_answer(struct syscalls *counts, const struct replay_result *result);

/* Call when the engine has ended: adds the early calls, closes the listener. */
void syscalls_finish(struct syscalls *counts, const struct replay_result *result);
