/* SPDX-License-Identifier: MIT */
/* The memory that a recorded process shares with the recorder, through which the recorder makes the process stop,
   pause, or begin and end bursts.

   Not its job: what the process writes into its rings (ring_reading.h). Invariant: the first region holds the values
   for all regions; a value that is set before that region exists is written when it is added. One thread. */
#pragma once

#include "capture/recorder/processes/process_state.h"

/* Makes a region and returns its descriptor, which the caller passes on and closes; -1 with errno set. */
int process_regions_add(struct recorded_process *process, uint32_t rings);

/* Requests the process to stop recording; each of its threads stops within half a lap of its ring. */
void process_regions_stop(struct recorded_process *process);

/* The trace cannot be written any more. Notes the first reason, by reference, and requests the process to stop. */
void process_regions_give_up(struct recorded_process *process, const char *why);

/* Sets or clears bits of enum pause_reason; the caller then advances the tick. */
void process_regions_pause(struct recorded_process *process, uint32_t reasons, bool on);

/* bursts: as in struct region, also for the first region when it is added; the caller then advances the tick. */
void process_regions_set_bursts(struct recorded_process *process, uint32_t bursts);

/* enum pause_reason, including the program's own. */
uint32_t process_regions_paused(const struct recorded_process *process);

/* Notes that the process is in a sandbox, which it may not notice itself. */
void process_regions_tell_sandboxed(struct recorded_process *process);

/* The number of events of threads that got no ring. */
uint64_t process_regions_orphans(const struct recorded_process *process);

/* Unmaps the memory. Nothing reads it afterwards. */
void process_regions_close(struct recorded_process *process);
