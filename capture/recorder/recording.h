/* SPDX-License-Identifier: MIT */
/* One recording: its settings, filled in from the command line and read by all parts of the recorder, its state, and
   the steps that the collector's files share: recording.c, then from the lowest: describe.c (INFO, file names),
   report.c (printing: record.h), upkeep.c (budget, rotation), executed.c, unfollowed.c, ends.c (of processes and of the
   recording), control.c (the operator's requests), connections.c (who attaches), and collector.c (ticks, samples).

   Invariant: the settings do not change while the collector serves. */
#pragma once

#include "capture/recorder/budget.h"

#include "capture/recorder/processes/recorded_process.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* Where bursts begin and end. Each text is that of a mark, or "SIG..." for a signal that the recorder gets, "ctl" for
   the operator only, or empty for the program's start or end. */
struct burst_ends {
  const char *from, *to;
  int from_signal, to_signal; /* 0: that end is not a signal */
};

/* What the operator requests. CHANGES: ends a burst if one has begun by request, else begins one. */
enum burst_request { BURST_NOT_REQUESTED, BURST_BEGINS, BURST_ENDS, BURST_CHANGES };

/* One image of a process, whose trace has been closed. */
struct process_summary {
  int pid, parent_pid;
  uint32_t number; /* in the order in which images began, from 0 */
  const char *name, *path;
  const char *end; /* as in the trace's footer */
  const struct process_totals *totals;
};

struct collector_settings {
  const char *output;    /* -o, or NULL: NAME.PID.tape in the current directory */
  int output_fd;         /* of the first process's trace; of its first file, if files rotate. Locked */
  uint32_t first_number; /* of that file, if files rotate */
  const char *name;      /* program's base name, for the default output */
  uint32_t flags;        /* enum attach_flags */
  uint64_t filter_bytes; /* size of the cache that filters accesses, where flags has ATTACH_ACCESSES */
  bool simulated;        /* the processes run under Valgrind, whose memory and times are not the program's */
  bool in_bursts;        /* accesses are recorded only in bursts; where burst.from is empty, from the start */
  struct burst_ends burst;
  uint32_t stack_depth;      /* frames, where flags has ATTACH_STACKS */
  uint32_t stack_unwind;     /* enum stack_unwind */
  uint64_t touch_min_bytes;  /* OS pages of objects are recorded from this request on; 0: default, UINT64_MAX: never */
  uint64_t duration_ns;      /* from the start to the end of recording; 0: until the program ends */
  uint64_t max_bytes;        /* recording ends before all traces together are larger; 0: no limit */
  uint64_t sample_ns;        /* from one sample of memory to the next; 0: the default */
  double budget;             /* share of the program's CPU time that recording may cost; 0: no limit */
  uint64_t budget_after_ns;  /* from the recorder's start; until then everything is recorded */
  uint64_t rotate_bytes;     /* a trace's next file begins at that size; 0: there is one file */
  uint32_t keep;             /* complete files of a trace to keep beside the current one; UINT32_MAX: all */
  bool start_paused;         /* nothing is recorded until the operator starts it (control.c) */
  bool follow;               /* record the processes that the first one starts */
  const char *describe_json; /* object for INFO's "describe", or NULL */
  int first_pid;
  int restorer_pid; /* --attach: the child that redirects the process (record_main.c); 0: the first process is our child
                     */
};

/* Printed by the program (report.c). report_error: also of a process that could not be recorded. A file that can't be
   written for the same reason as one before is only counted: report_conclude prints how many. */
void report_error(const struct error *error);

/* A process image whose trace is complete, or was abandoned (error has the reason). Prints a line, but only for the
   first processes: the tree has all. */
void report_process(const struct process_summary *process, const struct error *error);

/* What has become of the recording so far. */
struct collector_outcome {
  uint32_t recorded,
      refused;            /* processes; those that asked and could not be, for each of which an error was reported */
  uint32_t bursts;        /* within a budget */
  uint32_t files_deleted; /* as newer ones have followed */
  int restorer_status;    /* as waitpid gives it, where it has ended before the recording */
  volatile bool
      child_ended; /* first_pid was reaped, and its number may be another process's. For signal handlers too */
};
/* --- upkeep.c: bursts within the budget, rotating files --- */

/* The numbered files of a recording that rotates: their names, and which of them are still there.

   F.0001.tape, F.0002.tape and so on. Files that existed before are never touched: numbering continues after them. */
struct file_set {
  char base[4096]; /* path without number and ".tape" */
  uint64_t id;     /* random: the same in all files of the set */
  uint32_t first;  /* number of the set's first file */
  uint32_t oldest; /* number of the oldest file that was not deleted */
  uint32_t number; /* number of the file being written */
  uint64_t deleted_bytes;
};

/* path: where the recording would go if it did not rotate. The first number is `first`, or, if that is 0, the one
   after the highest existing number under that name. */
void file_set_begin(struct file_set *set, const char *path, uint32_t first);

/* The path of file number. */
void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes);

/* Of the whole recording. */
struct upkeep {
  struct budget budget;
  bool between;                     /* between two bursts: all processes are paused */
  bool idle;                        /* no process used CPU time between the last two steps */
  uint64_t stepped_ns, recorder_ns; /* at the last step: the time, and the recorder's CPU time */
  struct budget_use ended;          /* by processes that have ended since */
};

/* Of a recorded process, which owns it; NULL where there is neither a budget nor rotation. */
struct process_upkeep {
  struct file_set files;
  char *info_json;   /* of the recording; NULL: it does not rotate */
  uint64_t again_ns; /* the next file could not be begun: not tried again before then */
  bool complained;
  uint64_t program_ns, reading_ns, recorded, skipped; /* at the last step, of all files */
  uint64_t ns, recorded_ns; /* of this file: how long it was written, and how much of that was recorded */
  uint32_t bursts;          /* in this file */
  char footer[256];         /* FOOTER's `budget` */
};

/* The state of a recording.

   Invariants: only the serving thread touches the state, except for fields whose comments name others; a process is in
   the list from its attaching until its trace is closed. */
enum {
  PENDING_OF_PROCESS = 4,
  PENDING_OF_USER = 128, /* other than ours */
  PENDING_OF_OTHERS = 512,
  PENDING_OF_OWN = 512,
  CHILDREN_MOST = 2048,
};

/* A connection, and the process that made it. */
struct pending {
  int fd;
  struct ucred peer;
  bool own; /* of our own user */
  uint64_t since_ns;
};

/* Why a program that a recorded process has executed did not ask to be recorded. */
enum unfollowed_cause {
  UNFOLLOWED_PENDING, /* not known, or it will still ask */
  UNFOLLOWED_ENVIRONMENT,
  UNFOLLOWED_PRELOAD,
  UNFOLLOWED_RIGHTS,
  UNFOLLOWED_ROOT,
  UNFOLLOWED_LIBRARY, /* it may not read our library */
  UNFOLLOWED_NETWORK,
  UNFOLLOWED_STATIC,
  UNFOLLOWED_MACHINE,
  UNFOLLOWED_SIMULATED, /* under our Valgrind tool, where a program asks at its first call */
  UNFOLLOWED_FILTERS,
  UNFOLLOWED_SANDBOX, /* another one: Landlock, a network namespace */
  UNFOLLOWED_CHILD,   /* a fork child under either, whose calls its parent's trace counts */
  UNFOLLOWED_LIMITS,  /* perhaps lower than what recording needs, which it prints itself */
  UNFOLLOWED_LOST,    /* it did ask, in vain */
  UNFOLLOWED_INNER,   /* it did ask, in a process that is recorded: an emulator's guest */
  UNFOLLOWED_CAUSES
};

struct unfollowed {
  int pid;
  bool ended;
  bool told;   /* a note tells of it (executed.c) */
  bool lasted; /* it was there some time after it was seen first: it was not about to end or to ask */
  uint64_t seen_ns;
  enum unfollowed_cause cause;
  char name[64]; /* as in /proc */
};

/* A program that a process told us that it would execute (capture/wire/exec_note.h), and that has not attached. */
struct executed {
  int pid;                  /* as the host knows it */
  bool is_inner;            /* the host is in another PID namespace */
  unsigned long long start; /* as in struct proc_stat, when its note was taken; 0: it had ended, or is not known */
  enum unfollowed_cause cause;
  char path[EXEC_PATH_BYTES + 1];
};

/* A process that has asked to be recorded. */
struct attached {
  int pid, inner_pid;       /* inner_pid: in a PID namespace of its own; 0: in ours */
  uint32_t tick;            /* of the recording, when it asked */
  unsigned long long start; /* as in struct proc_stat; 0: not known */
};

struct collector {
  const struct collector_settings *settings;
  char address[160];     /* the value of HEAPTAPE_SOCKET for the recorded processes */
  uint32_t filters;      /* of system calls, that the recorder is under */
  char socket_path[108]; /* to be removed; empty: none */
  uint64_t secret;
  int socket, epoll;
  bool hides_users; /* its user name space lacks some */
  int other_socket; /* of the same name: with --attach in the network namespace of the process, if that is another one;
                       else in ATTACH_FOLDER. -1: none */
  bool crowded;     /* connections wait in the backlog, for descriptors or for a place in pending */
  struct pending pending[PENDING_OF_OTHERS + PENDING_OF_OWN]; /* whose request has not arrived yet */
  uint32_t pending_count;
  struct control *control;
  int control_fd;
  struct {
    struct robust_list_head head;
    struct robust_list entry;
  } robust;
  VECTOR(struct recorded_process *) processes;
  struct collector_outcome outcome;
  _Atomic bool stopping;  /* signal handlers set it */
  _Atomic bool toggle;    /* likewise */
  _Atomic int burst;      /* likewise: enum burst_request */
  _Atomic bool attention; /* something happened to a socket or a process; signal handlers and the waker set it */
  pthread_t waker;
  struct os_clocks origin;
  uint64_t tick_ns;        /* when the tick was last advanced */
  uint64_t own_peak_bytes; /* RSS of this process before the first one was started, at least */
  uint64_t ends_ns;        /* 0: there is no limit of time, or it has not started */
  uint64_t closed_bytes;   /* of the traces that are complete */
  uint32_t paused;         /* enum pause_reason, for later processes */
  uint32_t bursts;         /* as in struct bank, likewise */
  struct upkeep upkeep;
  VECTOR(struct unfollowed) unfollowed; /* programs that were executed and have not asked to be recorded */
  VECTOR(struct executed) executed;
  VECTOR(struct attached) attached; /* all processes that have asked, in that order */
  uint64_t unnamed;                 /* programs of which more is not known than that they were to be executed */
  uint64_t unfollowed_ns;           /* when to look for them again */
  bool ended;                       /* no process is recorded any more */
  bool has_main;                    /* a process has taken the trace name that was requested */
  bool restorer_ended;              /* with --attach */
  int child_status;
};

/* Are stamps from an atomic counter? Else from the cycle counter. */
static inline bool collector_counts(const struct collector *collector) {
  return collector->settings->flags & ATTACH_COUNTER;
}

/* Takes a stamp of the recording's clock. */
static inline uint64_t collector_stamp(const struct collector *collector) {
  return collector_counts(collector) ? atomic_load(&collector->control->counter) : os_stamp();
}

/* The recording's tick, as the hosts see it. */
static inline uint32_t collector_tick(const struct collector *collector) {
  return (uint32_t)(atomic_load(&collector->control->tick) >> 32);
}

/* Cycles per second, measured since the collector was opened; 0: the clock has no rate. */
static inline double collector_clock_hz(const struct collector *collector) {
  return collector_counts(collector) ? 0 : os_clocks_hz(collector->origin, os_read_clocks(CLOCK_MONOTONIC));
}

/* The recorded process with that number; NULL: there is none. It may have ended (collector_end_reaped). */
struct recorded_process *collector_find(const struct collector *collector, int64_t pid);

/* From now on, events on the descriptor wake the collector. */
void collector_watch(const struct collector *collector, int fd);

/* unfollowed.c: programs that recorded processes have executed and that could not be followed.

   A fresh image with our library asks to be recorded before its main, so one that does not is not recorded. Seen are
   children of a process's main thread, orphans, and images executed by a recorded process itself. Reads /proc only.
   Not seen: children of an unfollowed one; and of programs that end within the time between two looks (5 ms in the
   first second, then 50 ms) those of which no note tells (executed.c). Programs of heaptape's own, which heaptape's
   Python starts, are left out. */

/* Looks for them, where that is due. */
void unfollowed_serve(struct collector *collector);

/* The process has executed another program, which may still ask to be recorded. */
void unfollowed_executed(struct collector *collector, int pid);

/* It has asked; it is no child to look at from now on, also when its recording has ended before it. Is it in a PID
   namespace of its own? */
bool unfollowed_attached(struct collector *collector, int pid);

/* It has asked, but was refused for the number of connections, or has waited too long. */
void unfollowed_lost(struct collector *collector, int pid);

/* A process was not recorded for that reason (PENDING: not known), which counts where none has been seen. CHILD: the
   number is its parent's. pid -1: not known. */
void unfollowed_add_known(struct collector *collector, int pid, const char *name, enum unfollowed_cause cause);

/* The process's image, or its recording, ends. */
void unfollowed_process_ends(struct collector *collector, struct recorded_process *process);

/* Prints a line for each cause: the programs' names, why, and what to do; and how many can't be named. Returns the
   number of processes, at least. */
uint32_t unfollowed_report(struct collector *collector);

/* executed.c: what recorded processes themselves tell of the programs that they execute: for those that end before we
   look at them, all that is known. */

/* Has a process of that number, in our PID namespace or its own, asked in that tick of the recording, or later? */
bool executed_has_attached(const struct collector *collector, int pid, uint32_t tick);

/* Looks at the notes of all processes that have made at least that many since the last look. 0: of all. */
void executed_serve(struct collector *collector, uint32_t least);

/* The process's image, or its recording, ends: takes its notes. Returns how many fork children it has counted that
   are not recorded: it may be any number, and is bounded. */
uint32_t executed_end(struct collector *collector, struct recorded_process *process);

/* A process has asked to be recorded: what it was to execute before has attached. Is it in a PID namespace of its own?
 */
bool executed_attached(struct collector *collector, int pid);

/* The collector's socket: attaching processes, their other requests, and the operator's requests.

   Not its job: when it is served (collector.c), what the operator's requests do (control.c). Invariants: nothing waits
   for a process that has connected and not yet sent its request; requests of other users, and those that another
   process than the connected one sends, are refused (capture/wire/proof.h). */

/* Makes the sockets and their address. Returns 0, or -1 with errno set. */
int connections_open(struct collector *collector);
void connections_close(struct collector *collector);

/* Removes the socket that has a path. */
void connections_unlink(const struct collector *collector);

/* Of the descriptors for one more process, and its connection, how many are not free? */
uint32_t connections_lack(const struct collector *collector);

/* Accepts connections, and serves those whose request has arrived. */
void connections_serve(struct collector *collector);

/* What the operator can do with a running recording: start, stop, flush, status, and limits of time and size.

   Requests come over the collector's socket as one JSON object, {"verb": "start", "pid": N}, from a process of the same
   user or of root; the reply is also one object, {"ok": true, ...} or {"ok": false, "error": "..."}. pid is a recorded
   process, or the recorder, for all current and later processes. Verbs: those of `heaptape ctl`, and counts and modules
   for `heaptape top`. One thread, the serving one. */

/* Carries out a request; returns the reply, to be freed, or NULL if there is no memory. */
char *control_request(struct collector *collector, const char *text);

/* Starts the recording of all processes if it is stopped, else stops it. */
void control_toggle(struct collector *collector);

/* Begins or ends a burst in all processes. */
void control_burst(struct collector *collector, enum burst_request request);

/* Ends the recording if its time is over or the traces have grown too large. Cheap. */
void control_keep_limits(struct collector *collector);

/* Called once, before anything is served. A limit of time runs from the first start. */
void control_begin(struct collector *collector);

/* Called when the first process is recorded: with --attach, and under Valgrind, which takes a while to begin, the limit
   of time runs from then. */
void control_first_process(struct collector *collector);

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

/* Called before the process's trace is closed; the returned state is needed for that, and is freed afterwards. */
struct process_upkeep *process_upkeep_end(struct upkeep *upkeep, struct recorded_process *process);
void process_upkeep_free(struct process_upkeep *upkeep);

/* Called once, before anything is served. */
void upkeep_begin(struct collector *collector);

/* Enforces the budget and the file size. Cheap; called at each pass. */
void upkeep_serve(struct collector *collector);

/* How long the collector may sleep, and the time between samples of a program's memory; `otherwise`: their values
   without upkeep. */
uint64_t upkeep_sleep_ns(const struct collector *collector, uint64_t otherwise);
uint64_t upkeep_sample_ns(const struct collector *collector, uint64_t otherwise);

/* Replaces path, which has room for `bytes`, by the path of the trace's first file, and *info, which malloc returned,
   by the INFO of this file. Returns 0, or -1: out of memory. */
int upkeep_first_file(const struct collector *collector, struct process_upkeep **upkeep, char *path, size_t bytes,
                      char **info);

/* The process is recorded from now on; takes upkeep. */
void upkeep_process_begins(struct collector *collector, struct recorded_process *process,
                           struct process_upkeep *upkeep);
