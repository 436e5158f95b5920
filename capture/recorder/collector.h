/* The collector: serves the processes of one recording until all have ended.

   Not its job: starting the program, printing. Invariants: the tick advances about every millisecond while anything
   happens; a process's trace is complete when the process has ended; trouble with one process's trace leaves the others
   alone. One thread beside the caller's, which only turns socket and process events into a wake-up. */
#ifndef CAPTURE_RECORDER_COLLECTOR_H
#define CAPTURE_RECORDER_COLLECTOR_H

#include "capture/recorder/process/recorded_process.h"

#include <stdbool.h>

struct collector;

/* One image of a process, whose trace has been closed. */
struct process_summary {
  int pid, parent_pid;
  uint32_t number; /* in the sequence in which they began, from 0 */
  const char *name, *path;
  const char *end; /* as in the trace's footer */
  const struct process_totals *totals;
};

struct collector_settings {
  const char *output;        /* -o, or NULL: NAME.PID.tape in the current directory */
  const char *name;          /* program's base name, for that */
  uint32_t flags;            /* enum attach_flags */
  uint32_t stack_depth;      /* frames, where flags has ATTACH_STACKS */
  uint32_t stack_unwind;     /* enum stack_unwind */
  uint64_t touch_min_bytes;  /* of the objects whose resident OS pages are recorded; UINT64_MAX: of none */
  uint64_t duration_ns;      /* recording ends so long after its start; 0: with the program */
  uint64_t max_bytes;        /* ... or when all traces together are about to be larger; 0: no limit */
  uint64_t sample_ns;        /* of one sample of memory to the next; 0: the default */
  bool start_paused;         /* nothing is recorded until it is started (control.h) */
  bool follow;               /* record the processes that the first one starts */
  const char *describe_json; /* object for INFO's "describe", or NULL */
  int first_pid;
  /* A trace is complete (error empty) or was given up (error says why). */
  void (*report)(const struct process_summary *process, const struct trace_error *error);
  /* A process could not be recorded. */
  void (*complain)(const struct trace_error *error);
};

/* Makes socket and control page. settings is kept by reference; first_pid and output may still be filled in before the
   first collector_serve. Returns 0, or -1 with error. */
int collector_open(struct collector **out, const struct collector_settings *settings, struct trace_error *error);

/* The value of HEAPTAPE_SOCKET for the recorded processes; lives as long as the collector. */
const char *collector_address(const struct collector *collector);

/* Serves until the child first_pid and all recorded processes have ended. Returns the child's wait status. */
int collector_serve(struct collector *collector);

/* Wakes a serving collector; async-signal-safe. */
void collector_wake(struct collector *collector);

/* From now on, wait for no process once the child has ended: their traces are closed as "stopped". Async-signal-safe.
 */
void collector_stop(struct collector *collector);

/* Starts or stops the recording of all processes, whichever is not so now. Async-signal-safe. */
void collector_toggle(struct collector *collector);

/* Has first_pid been reaped? Then its number may be another's. */
bool collector_child_ended(const struct collector *collector);

/* How many processes were recorded. */
uint32_t collector_recorded(const struct collector *collector);

void collector_close(struct collector *collector);

/* The path of the first process's trace: -o, or NAME.PID.tape. Written to path. (describe.c) */
void collector_first_path(const struct collector_settings *settings, char *path, size_t bytes);

#endif
