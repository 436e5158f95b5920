/* SPDX-License-Identifier: MIT */
/* Ends of recorded processes, and of the recording. One thread, the serving one. */
#pragma once

#include "capture/recorder/recording.h"

/* Ends the recorded process of that number if it was reaped: to be called before a process that has the number now is
   looked for, as it may be another one. */
void collector_end_reaped(struct collector *collector, int pid);

/* How a process has ended: "exit" or "killed". */
const char *collector_end_of(const struct process_end *how);

/* Closes the process's trace, reports it, and frees process. end and how as in struct recording_end. */
void collector_end_process(struct collector *collector, struct recorded_process *process, const char *end,
                           const struct process_end *how);

/* Ends the recording of all processes at one time, so that each trace is a legal history; the processes keep running.
   why: static text, which goes into the traces. */
void collector_end_recording(struct collector *collector, const char *why);
