/* What a recording is to be like, and to whom the collector reports: filled in by the command line, read by all parts
   of the recorder.

   Layout only. Invariant: nobody changes the settings while the collector serves. */
#ifndef CAPTURE_RECORDER_COLLECTOR_SETTINGS_H
#define CAPTURE_RECORDER_COLLECTOR_SETTINGS_H

#include "capture/recorder/process/recorded_process.h"

#include <stdbool.h>

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

#endif
