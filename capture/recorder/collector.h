/* SPDX-License-Identifier: MIT */
/* The collector: serves the processes of one recording until all have ended.

   Not its job: starting the program, printing (report.c). Invariants: the tick advances about every millisecond while
   there are records; a process's trace is complete when the process has ended; an error with one process's trace does
   not affect the others. There is one thread beside the caller's, which only wakes it for sockets and ends of
   processes. Its callers read the recording's state, but change it by these functions only. */
#pragma once

#include "capture/recorder/control.h"
#include "capture/recorder/recording.h"

/* Makes the socket and the control page. settings is kept by reference; first_pid and output may still be filled in
   before the first collector_serve. Returns 0, or -1 with error. */
int collector_open(struct collector **out, const struct collector_settings *settings, struct error *error);

/* Serves until the child first_pid and all recorded processes have ended. Returns the child's wait status. */
int collector_serve(struct collector *collector);

/* Wakes a serving collector; async-signal-safe. */
void collector_wake(struct collector *collector);

/* Requests to wait for no process once the child has ended: their traces are then closed as "stopped".
 * Async-signal-safe. */
void collector_stop(struct collector *collector);

/* Starts the recording of all processes if it is stopped, else stops it. Async-signal-safe. */
void collector_toggle(struct collector *collector);

/* Begins or ends a burst of data accesses in all processes. Async-signal-safe. */
void collector_request_burst(struct collector *collector, enum burst_request request);

void collector_close(struct collector *collector);
