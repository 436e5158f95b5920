/* SPDX-License-Identifier: MIT */
/* The memory and processor time of a live program and of all programs that it starts, from outside (heaptape-observe).
   Replays are compared with these figures.

   Job: follow every program image (a process from one exec to the next, or to its end), read its RssAnon and VmSize at
   even intervals and before each system call that may shrink them, count the calls that manage memory, and read its
   processor time and page faults when it calls exit. Not its job: choosing among the programs; starting them.
   Invariants: reads /proc only; stops a process only for those calls, about 10 µs each; the peak of a process of one
   thread is exact (core/system/process.h), that of several threads nearly so, as the others continue while one is
   stopped. A process that ends without calling exit (by a signal) is known up to the last time it was read. Where the
   kernel forbids notification, only the command's own process is seen, and only at even intervals. Single-threaded. */
#pragma once

#include "core/base/error.h"
#include "core/command/cli.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { OBSERVED_LIMIT = 4096, OBSERVED_ROWS = 8192, OBSERVED_CALLS = 5 };

/* mmap, munmap, mremap, madvise, brk. */
extern const char *const observed_call_names[OBSERVED_CALLS];

struct observed_row {
  uint64_t time_ns, cpu_ns; /* since the image began; of its whole process */
  uint64_t rss_anon_bytes, vm_size_bytes;
};

/* One program image. */
struct observed {
  pid_t pid;
  bool live;
  bool guessed;  /* begun without a call by it */
  char name[16]; /* the kernel's: the first 15 bytes of the executed file's base name */
  char file[256];
  uint64_t begin_ns, interval_ns, next_row_ns;
  uint64_t rss_anon_peak_bytes, vm_size_peak_bytes, vm_hwm_bytes;
  uint64_t cpu_begin_ns, cpu_ns, time_ns; /* when last read */
  uint64_t minor_faults, major_faults, faults_begin;
  bool exited; /* it called exit: cpu_ns and faults are those of its whole life */
  uint64_t calls[OBSERVED_CALLS];
  int statm_fd, stat_fd;
  struct observed_row *rows;
  uint32_t row_count;
};

struct observation {
  int listener; /* -1: there is none */
  bool memory;  /* read memory; otherwise only processor time, and the calls are not stopped */
  uint64_t interval_ns;
  uint32_t count, lost; /* lost: images above OBSERVED_LIMIT */
  struct observed images[OBSERVED_LIMIT];
  struct {
    pid_t pid; /* 0: none */
    uint64_t time_ns, cpu_ns;
  } pending[OBSERVED_LIMIT]; /* processes that called exec, by number; whether it succeeded shows later */
  struct {
    pid_t thread;
    uint32_t image;
  } threads[OBSERVED_LIMIT]; /* the process of a thread: a cache, by number */
};

/* In the child, between fork and exec. Returns 0, or -1: the kernel does not permit it. Async-signal-safe. */
int observe_install(int socket, bool memory);

/* In the parent. `child`: the command's process. */
void observe_begin(struct observation *all, int socket, pid_t child);

/* Serves one notification. */
void observe_answer(struct observation *all);

/* Reads all images that are due; returns when the next one is due, on the monotonic clock. */
uint64_t observe_sample(struct observation *all);

/* To be called when all processes have ended. */
void observe_finish(struct observation *all);

/* What is done with the command instead, where one of the options that another file adds to `observe` asks for it:
   their fields are a const struct observe_instead *, NULL before the first. */
struct observe_instead {
  /* observes: options of observing were given, too. Returns what is wrong with the usage; NULL: nothing. */
  const char *(*wrong)(bool observes);
  /* output NULL: standard error. Returns the status to exit with: the command's (128 + its signal), 127 or 126 if it
     can't be started; or -1 with error. */
  int (*run)(char **command, const char *output, struct error *error);
};
