/* SPDX-License-Identifier: MIT */
/* The state that a recording of several days keeps of each process, and of the whole recording: for upkeep.c, and for
   the code that closes a trace.

   Job: the numbered files of a recording that rotates; what processes used since the last step, and what a file's
   footer has about its bursts. Not its job: when a burst or a new file begins (upkeep.h). One thread. Allocates
   nothing. */
#pragma once

#include "capture/recorder/budget.h"
#include "capture/recorder/processes/recorded_process.h"
#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The numbered files of a recording that rotates: their names, and which of them are still there.

   F.0001.tape, F.0002.tape and so on. Files that existed before are never touched: numbering continues after them. Not
   its job: what is in the files, when to begin the next. One thread. */
struct file_set {
  char base[4096]; /* path without number and ".tape" */
  uint64_t id;     /* random: the same in all files of the set */
  uint32_t first;  /* number of the set's first file */
  uint32_t oldest; /* number of the oldest file that was not deleted */
  uint32_t number; /* number of the file being written */
  uint64_t deleted_bytes;
};

/* path: where the recording would go if it did not rotate. The first number is the one after the highest existing
   number under that name. */
void file_set_begin(struct file_set *set, const char *path);

/* The path of file number. */
void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes);

/* Deletes the set's files except the one being written and the `keep` before it. Returns 0; or -1 with error filled in:
   one could not be deleted, which is tried again the next time. A file that no longer exists is not an error. */
int file_set_trim(struct file_set *set, uint32_t keep, struct error *error);

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
