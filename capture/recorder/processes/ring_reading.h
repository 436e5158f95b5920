/* SPDX-License-Identifier: MIT */
/* Turns the records of a process's rings into events and gaps of its trace, and those of its side stream. */
#pragma once

#include "capture/recorder/processes/process_state.h"

/* Adds readers for rings that the host has begun to use. */
void ring_reading_find(struct recorded_process *process);

/* Reads records behind empty slots as well, when nothing will fill these slots any more. */
void ring_reading_drain_rest(struct recorded_process *process, struct ring_reader *reader);

/* Notes that `dropped` calls are missing here; 0: none are, and why has another note. Afterwards the thread has a
   number, unless nothing is written any more. */
void ring_reading_gap(struct recorded_process *process, struct ring_reader *reader, uint64_t dropped, const char *why);

/* Writes gaps for all missing calls that the ring has counted, until the cut if there is one, and that no file has
   yet. */
void ring_reading_missing(struct recorded_process *process, struct ring_reader *reader);

/* The number of missing calls that no file has yet. */
uint64_t ring_reading_unreported(const struct recorded_process *process, const struct ring_reader *reader,
                                 enum missing why);

/* What a counter of the host's has grown by since *before, which becomes its value `all`. Where the host has
   overwritten it with what it can't have counted, this is counted as an invalid record, and the growth is 0. */
uint64_t ring_reading_growth(struct recorded_process *process, uint64_t all, uint64_t *before);

/* The recording is cut now: what the ring counts from here on is after the cut. */
void ring_reading_cut(struct ring_reader *reader);

/* Checks whether the thread's name has changed, where names are recorded. */
void ring_reading_name(struct recorded_process *process, struct ring_reader *reader);

/* The ring's owner has ended: another thread has taken the ring over, or the process or its recording has ended. */
void ring_reading_end_thread(struct recorded_process *process, struct ring_reader *reader);

/* The file ends here, and the thread continues in the next one. A partly read call stays with the reader. */
void ring_reading_leave_file(struct recorded_process *process, struct ring_reader *reader);

/* Reads what the rings and the side stream hold, and wakes the threads that wait for room. between is called
   after each ring, so that the tick advances. Returns the number of records. */
uint64_t ring_reading_drain_all(struct recorded_process *process, void (*between)(void *context), void *context);

/* The same until nothing is left, where the process or its recording has ended: at most some passes, as a child that
   has kept its memory can write without end. */
void ring_reading_drain_left(struct recorded_process *process, void (*between)(void *context), void *context);
