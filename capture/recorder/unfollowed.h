/* SPDX-License-Identifier: MIT */
/* Programs that recorded processes have executed and that could not be followed.

   A fresh image with our library asks to be recorded before its main, so one that does not is not recorded. Seen are
   children of a process's main thread, orphans, and images executed by a recorded process itself. Reads /proc only.
   Not seen: children of an unfollowed one; and of programs that end within the time between two looks (5 ms in the
   first second, then 50 ms) those of which no note tells (executed.c). Programs of heaptape's own, which heaptape's
   Python starts, are left out. */
#pragma once

#include "capture/recorder/recording.h"

/* Looks for them, where that is due. */
void unfollowed_serve(struct collector *collector);

/* The process has executed another program, which may still ask to be recorded. */
void unfollowed_executed(struct collector *collector, int pid);

/* It has asked; it is no child to look at from now on, also when its recording has ended before it. Is it in a PID
   namespace of its own? */
bool unfollowed_attached(struct collector *collector, int pid);

/* It has asked, but was refused for the number of connections, or has waited too long. */
void unfollowed_lost(struct collector *collector, int pid);

/* A process was not recorded for that reason (PENDING: not known), which counts where none has been seen. CHILD: the
   number is its parent's. pid -1: not known. */
void unfollowed_add_known(struct collector *collector, int pid, const char *name, enum unfollowed_cause cause);

/* The process's image, or its recording, ends. */
void unfollowed_process_ends(struct collector *collector, struct recorded_process *process);

/* Prints a line for each cause: the programs' names, why, and what to do; and how many can't be named. Returns the
   number of processes, at least. */
uint32_t unfollowed_report(struct collector *collector);
