/* SPDX-License-Identifier: MIT */
/* One recorded process: its regions, its trace, and how records become events.

   Not its job: sockets and waiting (collector.h), choosing file names. Invariants: everything read from a region is
   checked before it is used, as the host may have overwritten it; once a trace cannot be written any more its records
   are only counted, and the host runs on. One thread. Allocates with malloc. */
#pragma once

#include "capture/recorder/process/access_stream.h"
#include "capture/recorder/process/live_sample.h"
#include "capture/recorder/process/process_end.h"
#include "capture/recorder/process/sample.h"
#include "capture/recorder/process/site_sample.h"
#include "capture/recorder/process/stack_nodes.h"
#include "capture/recorder/process/thread_names.h"
#include "capture/wire/ring.h"
#include "core/base/vector.h"
#include "core/trace/write/trace_write.h"

enum { BEGINS_MAX = 8, TRACE_MARK_ROOM = 18 * 15 };

/* A ring, and what has been read of the call that is being read from it. */
struct ring_reader {
  struct ring *ring;
  char *memory;
  uint32_t tail;
  int64_t thread; /* -1: no event of the present owner in this file yet */
  struct {
    uint32_t thread, file; /* where the owner's last event before this file is; file 0: there is none */
  } before;
  uint64_t last_stamp; /* of the owner's steps so far, which an unstamped one inherits; 0: there is none */
  uint64_t serial;     /* of the present owner, where accesses are recorded */
  uint64_t param, stamp;
  uint64_t touched_address; /* that the last TOUCHED record names; 0: none */
  uint32_t touched_os_pages;
  struct {
    uint64_t address, stamp;
    uint64_t inherited;        /* the stamp, where it has none of its own */
    uint32_t touched_os_pages; /* plus 1; 0: not known */
  } begun[BEGINS_MAX];         /* resizes; deeper than 1 only where a signal handler interrupted one */
  uint32_t begins;
  struct record_columns columns; /* of the event to come; all 0: there are none */
  struct trace_event held;       /* a release whose latency may follow */
  bool holds;
  struct thread_name name;
  uint64_t reported[MISSING_KINDS]; /* of the missing calls that the ring has counted: those in this file or before */
  uint64_t at_cut[MISSING_KINDS];   /* what it had counted when the recording was cut */
  char text[TRACE_MARK_ROOM];       /* of the mark being read */
  uint32_t text_bytes;
  bool stopped; /* the ring's member says so */
  bool cut;     /* the recording ended before the record just read was written */
};

/* Of a thread: calls in the trace, missing ones included, and call rows of its accesses. */
struct thread_calls {
  uint64_t events, rows;
};

struct recorded_process {
  int pid, pid_fd;
  char *path;
  struct trace_writer *writer;
  const char *given_up; /* why nothing more is written; NULL: the trace is being written */
  struct sampler sampler;
  bool forked; /* not a fresh image */
  int parent_pid;
  uint32_t number; /* in the sequence in which they began */
  char name[64];
  struct {
    struct region *memory;
    uint32_t rings, seen;
  } region[REGIONS_MAX];
  uint32_t regions;
  VECTOR(struct ring_reader) readers;
  struct stack_nodes stacks;
  struct live_sample live;
  struct site_sample sites; /* of those acquires that have a stack */
  struct access_stream accesses;
  VECTOR(uint32_t) thread_of_serial; /* plus 1; 0: not known yet. Where accesses are recorded. */
  VECTOR(struct thread_calls) calls; /* by thread; likewise */
  const char *accesses_over;         /* why no more accesses are written; NULL: they are */
  bool simulated;                    /* accesses were asked for: the process runs under Valgrind */
  bool latency;                      /* releases are held until their latency comes */
  bool names;                        /* names of threads are recorded */
  uint32_t threads;
  uint64_t in_flight;
  uint64_t skipped;    /* calls made in pauses */
  uint64_t broken;     /* records that cannot be right */
  uint64_t cut_stamp;  /* later records are left out; 0: none are */
  uint64_t hold_stamp; /* the first later record of a ring, and those behind it, stay there; 0: none do */
  uint32_t file;       /* number of the trace, from 1 */
  struct {
    uint64_t calls[CALL_LIMIT], events, request_bytes, dropped, skipped, lost, file_bytes;
  } before;                      /* in earlier files */
  uint64_t nested_before;        /* likewise */
  const char *pause_word;        /* why calls are missing that were made in pauses */
  struct process_upkeep *upkeep; /* the collector's: upkeep.h */
  const char *cut_why;
  uint32_t paused; /* enum pause_reason, for the first region when it is added */
  uint32_t bursts; /* as in struct region, likewise */
  uint64_t origin_ns;
  uint64_t origin_stamp;
};

struct process_totals {
  struct trace_totals totals; /* of which dropped includes skipped */
  uint64_t skipped;           /* calls made in pauses */
  uint64_t broken;
  uint64_t stacks_lost;      /* that the process could not take */
  const char *accesses_over; /* why the accesses end before the events; NULL: they do not */
  double seconds;
  const char *cut_why; /* why the recording ended before the process; NULL: it did not */
};

struct recording_start {
  int pid, pid_fd;
  const char *path;
  const char *info_json; /* core/trace/FORMAT.md section 5 */
  uint64_t origin_stamp;
  bool simulated; /* its accesses are recorded */
  bool sampled;   /* samples of its accesses are */
  bool in_bursts; /* simulated accesses are recorded in bursts alone */
};

struct recording_end {
  const char *end;               /* as for trace_writer_close */
  const struct process_end *how; /* NULL where the process goes on */
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

/* Makes a region and returns its descriptor, which the caller passes on and closes; -1 with errno set. */
int recorded_process_add_region(struct recorded_process *process, uint32_t rings);

/* Makes the area of the process's call stacks, likewise. */
int recorded_process_add_stacks(struct recorded_process *process);

/* Makes the stream of the process's data accesses, likewise. */
int recorded_process_add_accesses(struct recorded_process *process);

/* Reads what the rings and the stream of accesses hold and wakes the threads that wait for room. between is called
   after each ring, so that the tick goes on. Returns how many records there were. */
uint64_t recorded_process_drain(struct recorded_process *process, void (*between)(void *context), void *context);

/* Requests the process to record no more; each of its threads stops within half a lap of its ring. */
void recorded_process_stop(struct recorded_process *process);

/* Ends the trace at the stamp: each thread's records count up to its first one with a later stamp. What a pass drains
   that begins after that time is then a legal history. why goes into the trace, as a gap of unknown
   count; kept by reference. */
void recorded_process_cut(struct recorded_process *process, uint64_t stamp, const char *why);

/* Sets or clears bits of enum pause_reason; the caller then advances the tick. */
void recorded_process_pause(struct recorded_process *process, uint32_t reasons, bool on);

/* bursts: as in struct region, also for the first region when it is added; the caller then advances the tick. */
void recorded_process_set_bursts(struct recorded_process *process, uint32_t bursts);

/* enum pause_reason, those of the program included. */
uint32_t recorded_process_paused(const struct recorded_process *process);

/* Writes out all that was drained, so that the file can be read up to here. */
void recorded_process_flush(struct recorded_process *process);

/* The same, thread by thread, with the rings drained in between: no thread waits for longer than for one block.
   between: as in recorded_process_drain. */
void recorded_process_flush_in_turns(struct recorded_process *process, void (*between)(void *context), void *context);

/* The size in bytes that the file would have if it were closed now, at most. */
uint64_t recorded_process_file_bytes(const struct recorded_process *process);

/* Calls that are missing so far: because a ring was full, and because they were made in a pause. */
struct process_missing {
  uint64_t dropped, skipped;
};
struct process_missing recorded_process_missing(const struct recorded_process *process);

void recorded_process_sample(struct recorded_process *process, uint64_t stamp);

/* Takes a sample of an access that the process, or the kernel for it, made. What belongs to another image of the
   process, to a pause, or to the time after a cut is left out. */
void recorded_process_access_sample(struct recorded_process *process, const struct trace_access_sample *sample,
                                    bool kernel);

/* So many samples were lost while the process was recorded, and so often they were held back: of whatever process. */
void recorded_process_samples_lost(struct recorded_process *process, uint64_t lost, uint64_t throttled);

/* Ends the trace's file and goes on in another, so that each record is in one of them: what was recorded up to the
   stamp in the first, unless a ring shows it only later; the rest in the second. A thread that goes on has a gap of no
   calls there that names it in the file before. Each is a legal history by itself, but for objects from before, and for
   resizes under way (FORMAT.md, `in_flight`). totals, for the file that has ended, is filled in where *ended. Returns
   0; or -1 with error: the file that has ended is not whole (*ended), or the next one could not be opened, and nothing
   has changed. */
int recorded_process_rotate(struct recorded_process *process, const struct recording_next *next,
                            struct process_totals *totals, bool *ended, struct error *error);

/* Calls recorded in all files, and those of them that are missing for a pause: a figure that only grows. */
uint64_t recorded_process_calls(const struct recorded_process *process, uint64_t *skipped);

/* Drains a last time (the process has ended, or its image has), closes the trace and frees. Returns 0, or -1
   with error filled in, also for an error met earlier; totals is filled in either way. */
int recorded_process_close(struct recorded_process *process, const struct recording_end *end,
                           struct process_totals *totals, struct error *error);
