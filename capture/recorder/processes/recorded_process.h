/* SPDX-License-Identifier: MIT */
/* One recorded process, from the opening of its trace to the process's end: what is read when, and into which file.

   Not its job: sockets, waiting and passing on descriptors (the collector), choosing file names, its state
   (process_state.h), reading its rings (ring_reading.h). One thread. Allocates with malloc. */
#pragma once

#include "capture/recorder/processes/process_state.h"

/* A gap's reason, and a line of the recorder. */
#define PROCESS_CALLS_LOST                                                                                             \
  "calls of objects that are bound to another malloc (RTLD_DEEPBIND), or are in another name space (dlmopen), are "    \
  "missing"

/* The same where functions of an allocator in the executable are redirected. */
#define PROCESS_CALLS_ROUND "the program calls its allocator by more than the functions that are known"

struct process_totals {
  struct trace_totals totals; /* of which dropped includes skipped */
  uint64_t skipped;           /* calls made in pauses */
  bool clockless;             /* and the program may read no clock any more */
  uint64_t broken;
  uint64_t stacks_lost;       /* stacks that the process could not take */
  const char *side_over;      /* why the rows of the side stream end before the events; NULL: they do not */
  double peak_live_bytes;     /* of all files so far */
  bool peak_is_exact;         /* else it is an estimate */
  uint64_t peak_memory_bytes; /* of RssAnon, in all files so far; 0: it was never read */
  bool calls_lost;            /* PROCESS_CALLS_LOST */
  uint64_t unpaired;          /* calls that are missing at least, for a reason that is not known */
  bool linked;                /* the reason is PROCESS_CALLS_ROUND */
  const char *cut_why;        /* why the recording ended before the process; NULL: it did not */
};

struct recording_start {
  int pid, pid_fd;
  const char *path;
  const char *info_json; /* core/trace/FORMAT.md section 5 */
  const int *file;       /* as in trace_writer_options */
  bool is_new;           /* likewise */
  uint64_t origin_stamp;
  bool simulated;    /* it runs under Valgrind */
  bool has_accesses; /* its data accesses are recorded */
  bool in_bursts;    /* only in bursts */
};

struct recording_end {
  const char *end;               /* as for trace_writer_close */
  const struct process_end *how; /* NULL where the process continues */
  double clock_hz;               /* as for trace_writer_close */
};

/* The trace's next file. */
struct recording_next {
  const char *path, *info_json;
  uint64_t stamp;  /* of the recording's clock; the tick has been advanced since */
  double clock_hz; /* of the file that ends, as for trace_writer_close */
};

/* Opens the trace. Takes pid_fd. Returns NULL with error filled in. */
struct recorded_process *recorded_process_open(const struct recording_start *start, struct error *error);

/* Makes the area of the process's call stacks and returns its descriptor, which the caller passes on and closes; -1
   with errno set. */
int recorded_process_add_stacks(struct recorded_process *process);

/* Ends the trace at the stamp: each thread's records count up to its first one with a later stamp. The records drained
   by a pass that begins after that time then complete a legal history. why goes into the trace, as a gap of unknown
   count; kept by reference. */
void recorded_process_cut(struct recorded_process *process, uint64_t stamp, const char *why);

/* Writes out all that was drained, so that the file can be read up to here. */
void recorded_process_flush(struct recorded_process *process);

/* The same, thread by thread, with the rings drained in between: no thread waits longer than for one block.
   between: as in ring_reading_drain_all. */
void recorded_process_flush_in_turns(struct recorded_process *process, void (*between)(void *context), void *context);

/* The size in bytes that the file would at most have if it were closed now. */
uint64_t recorded_process_file_bytes(const struct recorded_process *process);

/* Calls missing so far: dropped, because a ring was full; skipped, because they were made in a pause. */
struct process_missing {
  uint64_t dropped, skipped;
};
struct process_missing recorded_process_missing(const struct recorded_process *process);

/* May the process have set its allocator up by calls that were not recorded? */
bool recorded_process_settings_unknown(const struct recorded_process *process);

void recorded_process_sample(struct recorded_process *process, uint64_t stamp);

/* Ends the trace's file and continues in a new one, so that each record is in one of them: records up to the stamp in
   the first file, unless a ring shows them only later; later ones in the second. A thread that continues has a gap of
   no calls in the second file that names its number in the first. Each file alone is a legal history, except for
   objects from before, and for resizes under way (FORMAT.md, `in_flight`). totals, for the file that has ended, is
   filled in where *ended. Returns 0; or -1 with error: the file that has ended is incomplete (*ended), or the next one
   could not be opened, and nothing has changed. */
int recorded_process_rotate(struct recorded_process *process, const struct recording_next *next,
                            struct process_totals *totals, bool *ended, struct error *error);

/* CPU time of the process in which it read which OS pages are resident, since it began. */
uint64_t recorded_process_reading_ns(const struct recorded_process *process);

/* The number of calls recorded in all files, and in *skipped of those missing because of a pause; both only grow. */
uint64_t recorded_process_calls(const struct recorded_process *process, uint64_t *skipped);

/* Drains a last time (the process or its image has ended), closes the trace and frees. Returns 0, or -1 with error
   filled in, also for an earlier error; totals is filled in either way. */
int recorded_process_close(struct recorded_process *process, const struct recording_end *end,
                           struct process_totals *totals, struct error *error);
