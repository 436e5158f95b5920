/* SPDX-License-Identifier: MIT */
/* What a ring holds: its records in, events and gaps out to the trace.

   Not its job: which rings are read when (recorded_process.h). Invariant: a host may write anything into its rings;
   what cannot be right is counted (broken), and no call reads more than one ring's records. One thread. */
#pragma once

#include "capture/recorder/process/process_state.h"

/* Takes up the rings that the host has begun to use. */
void ring_reading_find(struct recorded_process *process);

/* Reads the ring up to its first empty slot and wakes threads that wait for room. Returns how many records there were.
 */
uint64_t ring_reading_drain(struct recorded_process *process, struct ring_reader *reader);

/* Reads what has been written behind empty slots as well, when nobody will fill them any more. */
void ring_reading_drain_rest(struct recorded_process *process, struct ring_reader *reader);

/* So many calls are missing here; 0: none are, and why tells the thread something else. Afterwards the thread has a
   number, unless nothing is written any more. */
void ring_reading_gap(struct recorded_process *process, struct ring_reader *reader, uint64_t dropped, const char *why);

/* Tells the trace of all missing calls that the ring has counted, until the cut if there is one, and no file has yet.
 */
void ring_reading_missing(struct recorded_process *process, struct ring_reader *reader);

/* How many of them no file has yet. */
uint64_t ring_reading_unreported(const struct ring_reader *reader, enum missing why);

/* The recording is cut now: what the ring counts from here on is behind it. */
void ring_reading_cut(struct ring_reader *reader);

/* Looks whether the thread's name has changed, where names are recorded. */
void ring_reading_name(struct recorded_process *process, struct ring_reader *reader);

/* The ring's owner has ended: another thread has taken the ring over, or the process or its recording has ended. */
void ring_reading_end_thread(struct recorded_process *process, struct ring_reader *reader);

/* The file ends here, and the thread goes on in the next one. What has been begun to be read stays with the reader. */
void ring_reading_leave_file(struct recorded_process *process, struct ring_reader *reader);
