/* SPDX-License-Identifier: MIT */
/* The program under Valgrind, where its data accesses are recorded, or it is static: Valgrind's
   command line, and Valgrind's own errors. For accesses, the recorded library asks the collector for a stream and hands
   it to the tool; in a static program, the tool itself attaches. Invariant: what Valgrind prints is kept out of the
   program's own output */
#pragma once

#include "capture/recorder/command/settings.h"
#include "capture/wire/linked.h"
#include "core/base/error.h"

struct simulator;

/* Finds Valgrind and the tool, and makes a directory for Valgrind's messages. functions: of a static program; count 0:
   it is none. Returns 0, or -1 with error. settings are kept by reference. */
int simulator_open(struct simulator **out, const struct collector_settings *settings,
                   const struct linked_list *functions, struct error *error);

/* Becomes the program at path, under Valgrind. Returns only if that fails, with errno. */
void simulator_become(struct simulator *simulator, const char *path, char **arguments);

/* Returns whether Valgrind's log of the process says that Valgrind can't run it; error then has that message. */
bool simulator_complained(const struct simulator *simulator, int pid, struct error *error);

/* Calls report for each process except but_pid that Valgrind can't run, with Valgrind's words. */
void simulator_each_complaint(const struct simulator *simulator, int but_pid,
                              void (*report)(int pid, const char *words));

/* simulator may be NULL. */
void simulator_close(struct simulator *simulator);
