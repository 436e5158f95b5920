/* SPDX-License-Identifier: MIT */
/* The INFO of a trace, which describes its process, and the trace's file name.

   Not its job: the trace's content. Allocates with malloc. */
#pragma once

#include "capture/recorder/command/settings.h"
#include "capture/recorder/processes/recorded_process.h"

/* Stamps as the trace's clock gives them. */
struct describe_clock {
  bool counter; /* else cycles */
  double hz;    /* 0: no rate */
  uint64_t origin_stamp;
};

/* What was before the recording of a process. late: it begins after the process began, so earlier objects may be
   released in it, and calls may be in flight. parent: of a fork child, NULL where it is not recorded. */
struct describe_past {
  bool late;
  const struct recorded_process *parent;
};

/* INFO's object (core/trace/FORMAT.md section 5), to be freed; NULL: out of memory. */
char *describe_info(const struct collector_settings *settings, const struct attach_request *request,
                    const struct describe_clock *clock, const struct describe_past *past);

/* Is that word among what INFO's object lacks? */
bool describe_lacks(const char *info_json, const char *word);

/* A file of a recording that rotates. */
struct describe_file {
  uint64_t set;                           /* the same in all files of the recording */
  uint32_t number;                        /* in its name */
  uint32_t first;                         /* number of the set's first file */
  uint32_t oldest;                        /* number of the oldest file that is kept once this one has begun */
  uint64_t origin_stamp;                  /* 0: this is the first file */
  const struct recorded_process *process; /* as the files before have it; NULL: this is the first file */
};

/* The INFO of that file, from the INFO of the recording; likewise. Later files lack the same things as a late
   recording. */
char *describe_file_info(const char *info_json, const struct describe_file *file);

/* CPU time in the program that recording a call costs, by the options; not the recorder's own. */
double describe_call_ns(const struct collector_settings *settings);

/* The name by which a process was started; "" where neither it nor /proc has it. */
void describe_program_name(const struct attach_request *request, char *name, size_t bytes);

/* Writes the path of the first process's trace to path: -o, or NAME.PID.tape. */
void describe_first_path(const struct collector_settings *settings, char *path, size_t bytes);

/* F.PID.tape beside the first trace's F.tape, with a further number if that name is taken. The file is created here, so
   that the name stays ours. Where the recording rotates, it is always F.PID.tape and not created: its files are
   numbered. */
void describe_further_path(const struct collector_settings *settings, int pid, char *path, size_t bytes);

/* The LD_PRELOAD with which the process was started, to be freed; NULL with errno 0: it has none; else it can't be
   read. */
char *describe_preloads(int pid);
