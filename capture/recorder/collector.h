/* SPDX-License-Identifier: MIT */
/* The collector: serves the processes of one recording until all have ended.

   Not its job: starting the program, printing. Invariants: the tick advances about every millisecond while there are
   records; a process's trace is complete when the process has ended; an error with one process's trace does not affect
   the others. There is one thread beside the caller's, which only wakes it for sockets and ends of processes. */
#pragma once

#include "capture/recorder/collector_settings.h"

#include <stdbool.h>

struct collector;

/* Makes the socket and the control page. settings is kept by reference; first_pid and output may still be filled in
   before the first collector_serve. Returns 0, or -1 with error. */
int collector_open(struct collector **out, const struct collector_settings *settings, struct error *error);

/* The value of HEAPTAPE_SOCKET for the recorded processes; lives as long as the collector. */
const char *collector_address(const struct collector *collector);

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

/* Has first_pid been reaped? Then its number may be another process's. */
bool collector_child_ended(const struct collector *collector);

/* How many processes were recorded. */
uint32_t collector_recorded(const struct collector *collector);

/* Has the restorer ended on its own, and reported by its status that it did its work? */
bool collector_restorer_succeeded(const struct collector *collector);

/* How many processes asked to be recorded and could not be; a complaint was reported for each. */
uint32_t collector_refused(const struct collector *collector);

/* What a recording within a budget has cost so far, in percent of the program's CPU time, and its number of bursts;
   false: there is no budget. */
bool collector_budget_used(const struct collector *collector, double *percent, uint32_t *bursts);

/* The number of files that were deleted because newer ones have followed. */
uint32_t collector_files_deleted(const struct collector *collector);

void collector_close(struct collector *collector);
