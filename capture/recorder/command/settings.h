/* SPDX-License-Identifier: MIT */
/* The settings of a recording, filled in from the command line and read by all parts of the recorder. They do not
   change while processes are served. */
#pragma once

#include "capture/wire/ring.h"
#include "capture/wire/stack_area.h"

#include <stdbool.h>
#include <stdint.h>

#define RECORD "heaptape-record"

/* Where bursts begin and end. Each text is that of a mark, or "SIG..." for a signal that the recorder gets, "ctl" for
   the operator only, or empty for the program's start or end. */
struct burst_ends {
  const char *from, *to;
  int from_signal, to_signal; /* 0: that end is not a signal */
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
