/* SPDX-License-Identifier: MIT */
/* The collector's own state, and the steps that several of its files share. For collector.c (ticks, samples, ends),
   connections.c (who attaches), control.c (the operator's requests on a running recording) and the files that these
   use; for nothing else.

   Invariants: only the serving thread touches the state, except for fields whose comments name others; a process is in
   the list from its attaching until its trace is closed. */
#pragma once

#include "capture/recorder/collector_settings.h"
#include "capture/recorder/process_upkeep.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <linux/futex.h>
#include <pthread.h>

enum { PENDING_MAX = 512 };

struct collector {
  const struct collector_settings *settings;
  char address[160];
  uint64_t secret;
  int socket, epoll;
  int pending[PENDING_MAX]; /* accepted connections whose request has not arrived yet, the oldest first */
  uint32_t pending_count;
  struct control *control;
  int control_fd;
  struct {
    struct robust_list_head head;
    struct robust_list entry;
  } robust;
  VECTOR(struct recorded_process *) processes;
  uint32_t recorded, refused; /* processes */
  _Atomic bool stopping;      /* signal handlers set it */
  _Atomic bool toggle;        /* likewise */
  _Atomic int burst;          /* likewise: enum burst_request */
  _Atomic bool attention;     /* something happened to a socket or a process; signal handlers and the waker set it */
  pthread_t waker;
  struct os_clocks origin;
  uint64_t tick_ns;        /* when the tick was last advanced */
  uint64_t own_peak_bytes; /* RSS of this process before the first one was started, at least */
  uint64_t ends_ns;        /* 0: there is no limit of time, or it has not started */
  uint64_t closed_bytes;   /* of the traces that are complete */
  uint32_t paused;         /* enum pause_reason, for later processes */
  uint32_t bursts;         /* as in struct region, likewise */
  struct upkeep upkeep;
  bool ended;                /* no process is recorded any more */
  bool has_main;             /* a process has taken the trace name that was requested */
  bool restorer_ended;       /* with --attach */
  bool restorer_succeeded;   /* ... and by its status, everything was put back */
  volatile bool child_ended; /* read by a signal handler */
  int child_status;
};

/* Are stamps from an atomic counter? Else from the cycle counter. */
bool collector_counts(const struct collector *collector);

/* Takes a stamp of the recording's clock. */
uint64_t collector_stamp(const struct collector *collector);

/* Cycles per second, measured since the collector was opened; 0: the clock has no rate. */
double collector_clock_hz(const struct collector *collector);

/* The recorded process with that number; NULL: there is none. */
struct recorded_process *collector_find(const struct collector *collector, int64_t pid);

/* Closes the process's trace, reports it, and frees process. end and how as in struct recording_end. */
void collector_end_process(struct collector *collector, struct recorded_process *process, const char *end,
                           const struct process_end *how);

/* From now on, events on the descriptor wake the collector. */
void collector_watch(const struct collector *collector, int fd);

/* Makes the hosts check their regions for changes, at their next call. */
void collector_advance_tick(struct collector *collector);

/* Ends the recording of all processes at one time, so that each trace is a legal history; the processes keep running.
   why: static text, which goes into the traces. */
void collector_end_recording(struct collector *collector, const char *why);

/* The collector's socket: attaching processes, their other requests, and the operator's requests.

   Not its job: when it is served (collector.c), what the operator's requests do (control.c). Invariant: nothing waits
   for a process that has connected and not yet sent its request; requests of other users are refused. */

/* Makes the socket and its address. Returns 0, or -1 with errno set. */
int connections_open(struct collector *collector);

/* Accepts connections, and serves those whose request has arrived. */
void connections_serve(struct collector *collector);

/* What the operator can do with a running recording: start, stop, flush, status, and limits of time and size.

   Requests come over the collector's socket as one JSON object, {"verb": "start", "pid": N}, from a process of the same
   user or of root; the reply is also one object, {"ok": true, ...} or {"ok": false, "error": "..."}. pid is a recorded
   process, or the recorder, for all current and later processes. Verbs: those of `heaptape ctl`, and counts and modules
   (counts.c) for `heaptape top`. Not its job: the socket. One thread, the serving one. */

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

/* Called when the first process is recorded: with --attach, the limit of time runs from then. */
void control_first_process(struct collector *collector);

/* What a running recording has counted so far, for `heaptape top`: replies of the control socket.

   Job: counts of calls, requests and missing calls by process and thread; what lives, and which stacks acquire, as
   estimates with their variances (estimates.h); the modules that contain the stacks' code. Not its
   job: rates and names, which the watcher makes. Invariants: the rings are drained first, so a call that had returned
   before the request is counted; nothing is changed in the trace. Allocates with malloc; one thread, the serving
   one. */

/* Counts of all processes (only: NULL), as many as fit into a reply, or of one. Threads and sites are given only where
   one process is requested, or there is only one. NULL: no memory. */
json_t *counts_of(struct collector *collector, struct recorded_process *only);

/* The modules mapped in the process, as far as the trace has them. NULL: no memory. */
json_t *counts_modules(const struct recorded_process *process);

/* What a recording of several days needs: bursts within a budget of CPU time (--budget), and rotating files (--rotate).

   Job: measuring what recording costs, pausing all processes between bursts, beginning each trace's next file in time,
   deleting old ones. Not its job: when a burst is due (budget.h), names (process_upkeep.h), the files
   (recorded_process.h). A part of the collector; one thread, the serving one. Allocates with malloc. */

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
