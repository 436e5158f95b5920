/* SPDX-License-Identifier: MIT */
/* What a recording that goes on for days knows of each process, and of all: for upkeep.c, and for whoever closes a
   trace.

   Job: what processes used since the last step, and what a file's footer says of its bursts. Not its job: when a burst
   or another file begins (upkeep.h). One thread. Allocates nothing. */
#pragma once

#include "capture/recorder/continuous/budget.h"
#include "capture/recorder/continuous/file_set.h"
#include "capture/recorder/process/recorded_process.h"

/* Of the whole recording. */
struct upkeep {
  struct budget budget;
  bool between;                     /* two bursts: all processes are paused */
  bool idle;                        /* no process used the processor between the last two steps */
  uint64_t stepped_ns, recorder_ns; /* at the last step: the time, and the recorder's CPU time */
  struct budget_use ended;          /* by processes that have ended since */
  uint32_t files_deleted, bursts;
};

/* Of a recorded process, to which it belongs; NULL where neither a budget nor rotation is asked for. */
struct process_upkeep {
  struct file_set files;
  char *info_json;   /* of the recording; NULL: it does not rotate */
  uint64_t again_ns; /* the next file could not be begun: not before then */
  bool complained;
  uint64_t program_ns, recorded, skipped; /* at the last step, of all files */
  uint64_t ns, recorded_ns;               /* of this file: how long it was written, and how much of that was recorded */
  uint32_t bursts;                        /* in this file */
  char footer[256];                       /* FOOTER's `budget` */
};

/* CPU time of all threads of the process, the ended ones too; 0: it is gone. */
uint64_t process_upkeep_cpu_ns(int pid);

/* Adds what the process used since the last step. */
void process_upkeep_add_use(struct recorded_process *process, struct budget_use *use);

/* What the footer of its file says. */
void process_upkeep_note(const struct upkeep *upkeep, struct recorded_process *process);

/* Its trace is about to be closed, for which what is returned is needed; then it is freed. */
struct process_upkeep *process_upkeep_end(struct upkeep *upkeep, struct recorded_process *process);
void process_upkeep_free(struct process_upkeep *upkeep);
