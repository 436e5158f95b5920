/* SPDX-License-Identifier: MIT */
/* What heaptape-record prints of the recorded processes on standard error: errors, a line for each process as it ends,
   and at the end the processes as a tree.

   Part of the program, not of a library. Invariant: a tree of any size prints in at most TREE_LINES lines, plus some
   lines with the number of processes left out; a process for which there is no memory counts among those. */
#pragma once

#include "capture/recorder/collector_settings.h"

#define RECORD "heaptape-record"

/* The number of traces, and the one with most events: a program that starts a hundred processes leaves as many files.
 */
struct report_written {
  uint32_t traces;
  uint64_t events;
  uint64_t bursts;
  char path[4096];
};

void report_error(const struct error *error);

/* A process image whose trace is complete, or was abandoned (error has the reason). Prints a line, but only for the
   first processes: the tree has all. */
void report_process(const struct process_summary *process, const struct error *error);

/* What was written so far. */
const struct report_written *report_written(void);

/* Prints one line per process, children below their parent; of many, those with most events. Prints nothing for one.
   Then forgets them. */
void report_tree(void);
