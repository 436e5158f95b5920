/* SPDX-License-Identifier: MIT */
/* What the kernel reports about a recorded process, read from outside: its memory, one row of a SAMPLES block at a
   time; names of its threads (--describe); how it ended, and what it used in total.

   Not its job: the samples' stamp, reaping. Invariants: reads only, and never blocks the process, which may end at any
   time: a value that can't be read is left out. A thread's name is set by the thread or another one, mostly soon after
   its start, and may change; so it is read at the thread's first event and then less and less often. */
#pragma once

#include "core/system/process.h"
#include "core/trace/write/trace_write.h"

#include <stdbool.h>
#include <stdint.h>

/* The budget is shared: sampling all processes takes at most 1 % of a core, in a process's first second at most 5 %. */
struct sampler {
  uint64_t opened_ns, next_ns;
  uint64_t cost_ns;    /* processor time of one reading, averaged */
  uint64_t read_stamp; /* os_stamp of the last one */
  int pid;
  int status_fd, stat_fd;           /* -1: cannot be read */
  bool begun;                       /* has there been a sample? */
  uint32_t filters_before, filters; /* of system calls, of the main thread: at the first sample, and set since */
  uint64_t stack;                   /* where the image's first stack begins; 0: not known */
  unsigned long owner;              /* effective user */
  struct proc_queue queue;
  struct proc_quota quota;
  bool executed; /* the process is another image than at the first sample, which no sample is taken of */
};

void sampler_open(struct sampler *sampler, int pid);
void sampler_close(struct sampler *sampler);

/* sampler_is_due: is it time for the next sample? sampler_plan: after a sample, sets the time of the next. base_ns: the
   default period; a tenth of it in the process's first second. */
bool sampler_is_due(const struct sampler *sampler, uint64_t now_ns);
void sampler_plan(struct sampler *sampler, uint64_t now_ns, uint64_t base_ns, uint32_t processes);

/* Fills all but the stamp; quantities that cannot be read are TRACE_SAMPLE_MISSING. They are read again where the
   recorder lost its processor between two, and so are of about one time. False: the process is gone. */
bool sampler_read(struct sampler *sampler, struct trace_sample *sample);

struct process_end {
  bool status_known;
  int status; /* as wait(2) gives it */
  bool usage_known;
  struct trace_final usage; /* without the peak, which only the process that reaps it receives */
  bool reaped_children;     /* the peak that wait4 gives may then be one of theirs */
};

/* Looks at a process that has ended: at a zombie through stat_fd (its /proc stat, opened while it lived), at a process
   that its parent has reaped through pid_fd, which gives the status since Linux 6.15. Either may be -1. */
struct process_end process_end_read(int pid_fd, int stat_fd);

/* All zero: nothing is known of the thread. */
struct thread_name {
  char text[32];
  uint64_t due_ns; /* of os_monotonic_ns */
  uint64_t wait_ns;
};

/* Reads the name if it is due. tid: the kernel's, in process pid. Returns whether the name is new. */
bool thread_name_refresh(struct thread_name *name, int pid, uint32_t tid, uint64_t now_ns);
