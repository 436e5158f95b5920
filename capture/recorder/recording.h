/* SPDX-License-Identifier: MIT */
/* The state of one recording, which the recorder's modules share; from the lowest: upkeep.h (budget, rotation),
   executed.h, unfollowed.h (who is not recorded), ends.h, control.h (the operator's requests), connections.h (who
   attaches), collector.h (ticks, samples). Below them: command/ (settings, INFO, printing), processes/. */
#pragma once

#include "capture/recorder/budget.h"
#include "capture/recorder/command/settings.h"
#include "capture/recorder/processes/recorded_process.h"
#include "core/base/os.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

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

/* What the operator requests. CHANGES: ends a burst if one has begun by request, else begins one. */
enum burst_request { BURST_NOT_REQUESTED, BURST_BEGINS, BURST_ENDS, BURST_CHANGES };

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

/* The most connections that wait for their request at a time. */
enum {
  PENDING_OF_PROCESS = 4,
  PENDING_OF_USER = 128, /* other than ours */
  PENDING_OF_OTHERS = 512,
  PENDING_OF_OWN = 512,
};

enum { CHILDREN_MOST = 2048 }; /* of a process, that are looked at */

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
  bool told;   /* a note tells of it (executed.h) */
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
  unsigned long long start; /* as in struct proc_stat; 0: not known */
};

/* What we share with the processes of one user: in an OS page behind this one, so that the futexes are all at one
   distance from their entries in the robust list. */
struct user_page {
  struct robust_list entry;
  uint32_t user;
  int fd;
  struct control *control;
};
enum { USERS_MOST = 1024 }; /* the kernel follows 2048 entries */

/* The state of a recording.

   Invariants: only the serving thread touches the state, except for fields whose comments name others; a process is in
   the list from its attaching until its trace is closed. */
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
  struct control *control; /* of our own user's page, the first */
  VECTOR(struct user_page *) pages;
  struct robust_list_head robust;
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

/* Takes a stamp of the clock of the processes that share that page. */
static inline uint64_t collector_stamp(const struct collector *collector, const struct control *control) {
  return collector_counts(collector) ? atomic_load(&control->counter) : os_stamp();
}

/* A connection was accepted, or a process has ended. */
static inline void collector_served(const struct collector *collector) {
  for (size_t i = 0; i < collector->pages.count; i++)
    atomic_fetch_add(&collector->pages.at[i]->control->served, 1);
}

/* The page of that user, made at its first process; NULL with errno: there can be none. */
struct user_page *collector_page(struct collector *collector, uint32_t user);
void collector_free_pages(struct collector *collector);

/* Of all pages. */
void collector_advance_ticks(struct collector *collector);

/* Cycles per second, measured since the collector was opened; 0: the clock has no rate. */
static inline double collector_clock_hz(const struct collector *collector) {
  return collector_counts(collector) ? 0 : os_clocks_hz(collector->origin, os_read_clocks(CLOCK_MONOTONIC));
}

/* The recorded process with that number; NULL: there is none. It may have ended (collector_end_reaped). */
struct recorded_process *collector_find(const struct collector *collector, int64_t pid);

/* From now on, events on the descriptor wake the collector. */
void collector_watch(const struct collector *collector, int fd);
