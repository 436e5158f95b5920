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
  bool keeper_ended;         /* with --attach */
  bool keeper_did;           /* ... and by its status, everything was put back */
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
