/* SPDX-License-Identifier: MIT */
/* Runs a command under our Valgrind tool in mode simulate (observe/valgrind): exact counts of a program.

   Job: start Valgrind, wait, and judge whether it could run the program. Not its job: the model and the result's keys
   (observe/valgrind/README.md); finding and starting Valgrind (core/system/valgrind.h). Changes the process's signal
   handling while the command runs. */
#pragma once

#include "core/base/error.h"

#include <stdbool.h>

struct simulation {
  const char *output; /* of the command itself; its other processes write to OUTPUT.PID. NULL: to stderr, and other
                         processes' results are lost */
  const char *caches, *tlbs;     /* as in the options; NULL: the tool's defaults */
  const char *instruction_cache; /* the same */
  bool data_only;                /* no caches for instructions */
  const char *shift;             /* OS pages that are mapped before the program's libraries; NULL: none */
  char **command;
};

/* Returns the status to exit with: the command's (128 + its signal), 127 or 126 if it can't be started; or -1 with
   error: Valgrind is missing or of another version, or could not run the program. */
int simulate(const struct simulation *simulation, struct error *error);
