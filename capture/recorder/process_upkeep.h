/* SPDX-License-Identifier: MIT */
/* The state that a recording of several days keeps of each process, and of the whole recording: for upkeep.c, and for
   the code that closes a trace.

   Job: what processes used since the last step, and what a file's footer has about its bursts. Not its job: when a
   burst or a new file begins (upkeep.h). One thread. Allocates nothing. */
#pragma once

#include "capture/recorder/budget.h"
#include "capture/recorder/file_set.h"
#include "capture/recorder/processes/recorded_process.h"

/* Of the whole recording. */
struct upkeep {
  struct budget budget;
  bool between;                     /* between two bursts: all processes are paused */
  bool idle;                        /* no process used CPU time between the last two steps */
  uint64_t stepped_ns, recorder_ns; /* at the last step: the time, and the recorder's CPU time */
  struct budget_use ended;          /* by processes that have ended since */
  uint32_t files_deleted, bursts;
};

/* Of a recorded process, which owns it; NULL where there is neither a budget nor rotation. */
struct process_upkeep {
  struct file_set files;
  char *info_json;   /* of the recording; NULL: it does not rotate */
  uint64_t again_ns; /* the next file could not be begun: not tried again before then */
  bool complained;
  uint64_t program_ns, recorded, skipped; /* at the last step, of all files */
  uint64_t ns, recorded_ns;               /* of this file: how long it was written, and how much of that was recorded */
  uint32_t bursts;                        /* in this file */
  char footer[256];                       /* FOOTER's `budget` */
};

/* CPU time of all threads of the process, including ended ones; 0: the process is gone. */
uint64_t process_upkeep_cpu_ns(int pid);

/* Adds what the process used since the last step. */
void process_upkeep_add_use(struct recorded_process *process, struct budget_use *use);

/* Writes what the footer of its file has. */
void process_upkeep_note(const struct upkeep *upkeep, struct recorded_process *process);

/* Called before the process's trace is closed; the returned state is needed for that, and is freed afterwards. */
struct process_upkeep *process_upkeep_end(struct upkeep *upkeep, struct recorded_process *process);
void process_upkeep_free(struct process_upkeep *upkeep);
