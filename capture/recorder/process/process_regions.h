/* SPDX-License-Identifier: MIT */
/* The memory that a recorded process shares with the recorder, and what the process is told by it: to stop, to pause,
   when bursts begin and end.

   Not its job: what the process writes into its rings (ring_reading.h). Invariant: the first region holds what counts
   for all; what is set before it is there is set as it is added. One thread. */
#pragma once

#include "capture/recorder/process/process_state.h"

/* Makes a region and returns its descriptor, which the caller passes on and closes; -1 with errno set. */
int process_regions_add(struct recorded_process *process, uint32_t rings);

/* Requests the process to record no more; each of its threads stops within half a lap of its ring. */
void process_regions_stop(struct recorded_process *process);

/* The trace cannot be written any more. Notes the first reason, by reference, and requests the process to stop. */
void process_regions_give_up(struct recorded_process *process, const char *why);

/* Sets or clears bits of enum pause_reason; the caller then advances the tick. */
void process_regions_pause(struct recorded_process *process, uint32_t reasons, bool on);

/* bursts: as in struct region, also for the first region when it is added; the caller then advances the tick. */
void process_regions_set_bursts(struct recorded_process *process, uint32_t bursts);

/* enum pause_reason, those of the program included. */
uint32_t process_regions_paused(const struct recorded_process *process);

/* The process is in a sandbox, which it may not see by itself. */
void process_regions_tell_sandboxed(struct recorded_process *process);

/* Events of threads that got no ring. */
uint64_t process_regions_orphans(const struct recorded_process *process);

/* Gives the memory back. Nothing reads it afterwards. */
void process_regions_close(struct recorded_process *process);
