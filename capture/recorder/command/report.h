/* SPDX-License-Identifier: MIT */
/* What the recorder prints on standard error: errors as they occur, and at the end what was recorded; and which files
   stay.

   The one rule on several process images: the requested file is that of the busiest image: of those with at least
   half of the most calls, the one with the highest peak memory (RssAnon); if that, and the command, only start
   programs (they ended by exec or are shells, with less than 10,000 calls; or have less than 1,000), one with fewer
   calls and twice its memory. Images with less than 1 % of all calls lose their file, are counted and named.
   Invariants: a file is deleted only if its recording is complete; what was recorded is said in a few lines, whatever
   the number of processes */
#pragma once

#include "capture/recorder/command/settings.h"
#include "capture/recorder/processes/recorded_process.h"
#include "core/base/error.h"

/* One image of a process, whose trace has been closed. */
struct process_summary {
  int pid, parent_pid;
  uint32_t number; /* in the order in which images began, from 0 */
  const char *name, *path;
  const char *end; /* as in the trace's footer */
  const struct process_totals *totals;
};

/* Also of a process that could not be recorded. A file that can't be
   written for the same reason as one before is only counted: report_conclude prints how many. */
void report_error(const struct error *error);

/* A process image whose trace is complete, or was abandoned (error has the reason). Prints a line, but only for the
   first processes: the tree has all. */
void report_process(const struct process_summary *process, const struct error *error);

/* Gives the busiest image the requested file and deletes those of small ones, except where files rotate; with --attach
   the requested file stays the attached process's. Then prints the lines, and forgets all. all_processes: keeps all
   files, and prints the tree of processes. */
void report_conclude(const struct collector_settings *settings, bool all_processes);

/* The number of bursts of data accesses, and of files written so far; of these, how many should have data accesses and
   have none: an error has named them, and the recording has failed. */
struct report_written {
  uint32_t files, without_accesses;
  uint64_t bursts;
};
struct report_written report_written(void);
