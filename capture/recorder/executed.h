/* SPDX-License-Identifier: MIT */
/* What recorded processes themselves tell of the programs that they execute: for those that end before we
   look at them, all that is known. */
#pragma once

#include "capture/recorder/recording.h"

/* Looks at the notes of all processes that have made at least that many since the last look. 0: of all. */
void executed_serve(struct collector *collector, uint32_t least);

/* The process's image, or its recording, ends: takes its notes. Returns how many fork children it has counted that
   are not recorded: it may be any number, and is bounded. */
uint32_t executed_end(struct collector *collector, struct recorded_process *process);

/* A process has asked to be recorded: what it was to execute before has attached. Is it in a PID namespace of its own?
 */
bool executed_attached(struct collector *collector, int pid);
