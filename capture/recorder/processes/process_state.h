/* SPDX-License-Identifier: MIT */
/* The state of one recorded process, and what is shared with it: its banks of rings.

   Invariants: the size of memory that is shared with the process is fixed, by seals: a host that shortened it would
   kill the recorder with SIGBUS; the first bank holds the values for all banks, and a value that is set before that
   bank exists is written when it is added; everything read from a bank or a stream is checked before it is used, as
   the host may write anything there: invalid records are counted (broken), and no call reads more than one ring's
   records; once a trace cannot be written any more its records are only counted, and the host keeps running. As the
   process begins, the collector sets its identity and what is recorded of it; other folders only read the other
   fields. One thread. Allocates with malloc. */
#pragma once

#include "capture/recorder/processes/balance.h"
#include "capture/recorder/processes/estimates.h"
#include "capture/recorder/processes/proc_entries.h"
#include "capture/recorder/processes/settings_made.h"
#include "capture/recorder/processes/stacks.h"
#include "capture/wire/ring.h"
#include "core/base/vector.h"
#include "core/trace/write/trace_write.h"

#include <stdbool.h>
#include <stddef.h>

struct side_stream;

enum { BEGINS_MAX = 8, TRACE_MARK_ROOM = 18 * 15 };

/* A ring, and the parts read so far of the call that is being read from it. */
struct ring_reader {
  struct ring *ring;
  char *memory;
  uint32_t tail;
  int64_t thread; /* -1: no event of the present owner in this file yet */
  struct {
    uint32_t thread, file; /* place of the owner's last event before this file; file 0: there is none */
  } before;
  uint64_t last_stamp; /* of the owner's steps so far, which an unstamped one inherits; 0: there is none */
  uint64_t serial;     /* of the present owner, where a side stream has it */
  uint64_t param, stamp;
  uint64_t touched_address; /* of the last TOUCHED record; 0: none */
  struct touched touched;
  struct {
    uint64_t address, stamp;
    uint64_t inherited;     /* the stamp, where the step itself has none */
    struct touched touched; /* os_pages plus 1; 0: not known */
  } begun[BEGINS_MAX];      /* resizes; deeper than 1 only where a signal handler interrupted one */
  uint32_t begins;
  struct record_columns columns; /* of the next event; all 0: there are none */
  struct trace_event held;       /* a release whose latency may follow */
  bool holds;
  struct thread_name name;
  uint64_t reported[MISSING_KINDS]; /* missing calls counted by the ring that this file or an earlier one has */
  uint64_t nested;                  /* counted by the ring, likewise */
  uint64_t at_cut[MISSING_KINDS];   /* what it had counted when the recording was cut */
  char text[TRACE_MARK_ROOM];       /* of the mark being read */
  uint32_t text_bytes;
  bool stopped; /* the ring's member says so */
  bool cut;     /* the recording ended before the record just read was written */
};

/* In a file, of which each costs the recorder 64 bytes, and more where it has a side stream: the host may claim any
   number. */
enum { PROCESS_THREADS_MOST = 1 << 22 };

struct recorded_process {
  int pid, pid_fd;
  struct control *control; /* the page of its user; the collector's */
  char *path;
  struct trace_writer *writer;
  const char *given_up; /* why nothing more is written; NULL: the trace is being written */
  struct sampler sampler;
  bool forked; /* not a fresh image */
  bool linked; /* functions of an allocator in its executable are redirected */
  struct settings_made settings;
  int parent_pid;
  uint32_t number; /* in the order in which images began */
  char name[64];
  struct {
    struct bank *memory;
    uint32_t rings, seen;
  } bank[BANKS_MAX];
  uint32_t banks;
  uint64_t inode; /* of the first bank */
  VECTOR(struct ring_reader) readers;
  struct stack_nodes stacks;
  struct live_sample live;
  struct balance balance;   /* empty where calls are known to be missing from its beginning on */
  struct site_sample sites; /* of acquires that have a stack */
  struct side_stream *side; /* side_stream.h; NULL: none */
  bool simulated;           /* the process runs under Valgrind */
  bool latency;             /* releases are held until their latency arrives */
  bool names;               /* names of threads are recorded */
  uint32_t threads;
  struct trace_sample sampled; /* the last one, where any was taken */
  uint64_t peak_memory_bytes;  /* of RssAnon, by samples and VmHWM; 0: it was never read */
  uint64_t in_flight;
  uint64_t skipped;    /* calls made in pauses */
  uint64_t unpaired;   /* as process_totals has it */
  uint64_t broken;     /* invalid records, and values of counters */
  uint64_t cut_stamp;  /* later records are left out; 0: none are */
  uint64_t hold_stamp; /* a ring's first later record, and those behind it, stay in the ring; 0: none do */
  uint32_t file;       /* number of the trace, from 1 */
  struct {
    uint64_t calls[CALL_LIMIT], events, request_bytes, dropped, skipped, lost, file_bytes;
  } before;                      /* in earlier files */
  const char *pause_word;        /* the reason given for calls missing in pauses */
  struct process_upkeep *upkeep; /* the collector's: recording.h */
  const char *cut_why;
  uint32_t paused;              /* enum pause_reason, for the first bank when it is added */
  uint32_t bursts;              /* as in struct bank, likewise */
  uint32_t noted;               /* as in the first bank, when its notes were last looked at; executed.c */
  bool has_notes;               /* then some stood */
  bool is_inner;                /* in a PID namespace of its own: other numbers than ours are in its notes */
  uint64_t began_ns, origin_ns; /* of the recording; of this file */
  uint64_t origin_stamp;
};

/* The reason in a gap of no calls. */
#define COUNTER_OVERWRITTEN "the program has overwritten a count of missing calls"

/* Is the trace still being written? */
static inline bool process_writes(const struct recorded_process *process) {
  return !process->given_up;
}

/* Returns a descriptor of new, zeroed memory, close-on-exec, and maps it at *memory; both are the caller's. name: shown
   in /proc/PID/maps. Returns -1 with errno set, and *memory unchanged, if there is none. */
int shared_memory_open(const char *name, size_t size_bytes, void **memory);

/* Makes a bank and returns its descriptor, which the caller passes on and closes; -1 with errno set. */
int process_banks_add(struct recorded_process *process, uint32_t rings);

/* Has the process its first bank still? Else it has executed another program since, or can't be looked at. */
bool process_banks_are_mapped(const struct recorded_process *process);

/* Requests the process to stop recording; each of its threads stops within half a lap of its ring. */
void process_banks_stop(struct recorded_process *process);

/* The trace cannot be written any more. Notes the first reason, by reference, and requests the process to stop. */
void process_banks_give_up(struct recorded_process *process, const char *why);

/* Sets or clears bits of enum pause_reason; the caller then advances the tick. */
void process_banks_pause(struct recorded_process *process, uint32_t reasons, bool on);

/* bursts: as in struct bank, also for the first bank when it is added; the caller then advances the tick. */
void process_banks_set_bursts(struct recorded_process *process, uint32_t bursts);

/* enum pause_reason, including the program's own. */
uint32_t process_banks_paused(const struct recorded_process *process);
