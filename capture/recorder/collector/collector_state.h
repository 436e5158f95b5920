/* SPDX-License-Identifier: MIT */
/* The collector's own state, and the steps that more than one of its files take. For collector.c (ticks, samples,
   ends), connections.c (who attaches), control.c (what the operator does with a running recording) and what these use;
   for nobody else.

   Invariants: only the thread that serves touches it, but for the fields marked with who else does; a process is in the
   list from its attaching until its trace is closed. */
#pragma once

#include "capture/recorder/collector/collector_settings.h"
#include "capture/recorder/continuous/process_upkeep.h"
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
  int pending[PENDING_MAX]; /* accepted connections whose request has not come yet, the oldest first */
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
  uint64_t samples_lost, samples_throttled; /* that the processes have been told of */
  struct os_clocks origin;
  uint64_t tick_ns;        /* when it was last advanced */
  uint64_t own_peak_bytes; /* RSS of this process before the first one was started, at least */
  uint64_t ends_ns;        /* 0: no limit of time, or it does not run yet */
  uint64_t closed_bytes;   /* of the traces that are complete */
  uint32_t paused;         /* enum pause_reason, for processes to come */
  uint32_t bursts;         /* as in struct region, likewise */
  struct upkeep upkeep;
  bool ended;                /* no process is recorded any more */
  bool has_main;             /* the process whose trace has the name that was asked for has come */
  bool keeper_ended;         /* of a process that ran before */
  bool keeper_did;           /* ... and its status says that all was put back */
  volatile bool child_ended; /* read by a signal handler */
  int child_status;
};

/* Are stamps an atomic counter's? Else the cycle counter's. */
bool collector_counts(const struct collector *collector);

/* A stamp of the recording's clock, now. */
uint64_t collector_stamp(const struct collector *collector);

/* Cycles per second, measured since the collector was opened; 0: the clock has no rate. */
double collector_clock_hz(const struct collector *collector);

/* The recorded process of that number; NULL: there is none. */
struct recorded_process *collector_find(const struct collector *collector, int64_t pid);

/* Takes the samples of data accesses that there are to the processes that made them. asked: as in perf_source_lost.
   Returns how many there were. */
uint64_t collector_take_samples(struct collector *collector, bool asked);

/* Closes the process's trace, reports it, and frees process. end and how as in struct recording_end. */
void collector_end_process(struct collector *collector, struct recorded_process *process, const char *end,
                           const struct process_end *how);

/* What happens to the descriptor wakes the collector from here on. */
void collector_watch(const struct collector *collector, int fd);

/* Makes the hosts look at what has changed in their regions: they do so at their next call. */
void collector_advance_tick(struct collector *collector);

/* Ends the recording of all processes at one time, so that each trace is a legal history; the processes run on. why:
   static text, which goes into the traces. */
void collector_end_recording(struct collector *collector, const char *why);
