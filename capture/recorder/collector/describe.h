/* SPDX-License-Identifier: MIT */
/* The INFO of a trace, which describes its process, and the trace's file name.

   Not its job: the trace's content. Allocates with malloc. */
#pragma once

#include "capture/recorder/collector/collector_settings.h"

#include <stddef.h>

/* Stamps as the trace's clock gives them. */
struct describe_clock {
  bool counter; /* else cycles */
  double hz;    /* 0: no rate */
  uint64_t origin_stamp;
};

/* INFO's object (core/trace/FORMAT.md section 5), to be freed; NULL: out of memory. late: recording
   begins after the process has, so that objects from before may be released in it, and calls may be in flight. */
char *describe_info(const struct collector_settings *settings, const struct attach_request *request,
                    const struct describe_clock *clock, bool late);

/* Which file of a recording that rotates. */
struct describe_file {
  uint64_t set;          /* the same in all its files */
  uint32_t number;       /* in its name */
  uint32_t first;        /* that of the set's first file */
  uint32_t oldest;       /* that of the oldest one that is to be kept when this one has begun */
  uint64_t origin_stamp; /* 0: it is the first */
};

/* The INFO of that file, from the INFO of the recording; likewise. Later files lack what a late recording does. */
char *describe_file_info(const char *info_json, const struct describe_file *file);

/* The name by which a process was started; "" where neither it nor /proc has it. */
void describe_program_name(const struct attach_request *request, char *name, size_t bytes);

/* The path of the first process's trace: -o, or NAME.PID.tape. Written to path. */
void describe_first_path(const struct collector_settings *settings, char *path, size_t bytes);

/* F.PID.tape beside the first trace's F.tape, with a further number if that is taken; made here, so that it stays ours.
   Where the recording rotates, F.PID.tape always, and not made: files of that name are numbered
   (continuous/file_set.h). */
void describe_further_path(const struct collector_settings *settings, int pid, char *path, size_t bytes);
