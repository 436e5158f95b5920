/* SPDX-License-Identifier: MIT */
/* What a recording does beside reading: bursts within the budget, and files that rotate. One thread, the serving one.
 */
#pragma once

#include "capture/recorder/recording.h"

/* path: where the recording would go if it did not rotate. The first number is `first`, or, if that is 0, the one
   after the highest existing number under that name. */
void file_set_begin(struct file_set *set, const char *path, uint32_t first);

/* The path of file number. */
void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes);

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
