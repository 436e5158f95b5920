/* SPDX-License-Identifier: MIT */
/* Runs the program under Valgrind, where its data accesses are recorded.

   Job: Valgrind's command line, and Valgrind's own errors. Not its job: the accesses (access_stream.h): the
   recorded library asks the collector for a stream and hands it to the tool. Invariant: what Valgrind prints is kept
   out of the program's own output. */
#pragma once

#include "capture/recorder/collector_settings.h"

struct simulator;

/* Finds Valgrind and the tool, and makes a directory for Valgrind's messages. Returns 0, or -1 with error. settings are
   kept by reference. */
int simulator_open(struct simulator **out, const struct collector_settings *settings, struct error *error);

/* Becomes the program at path, under Valgrind. Returns only if that fails, with errno. */
void simulator_become(struct simulator *simulator, const char *path, char **arguments);

/* Returns whether Valgrind's log of the process says that Valgrind can't run it; error then has that message. */
bool simulator_complained(const struct simulator *simulator, int pid, struct error *error);

/* Calls report for each process except but_pid that Valgrind can't run, with Valgrind's words. */
void simulator_each_complaint(const struct simulator *simulator, int but_pid,
                              void (*report)(int pid, const char *words));

/* simulator may be NULL. */
void simulator_close(struct simulator *simulator);
