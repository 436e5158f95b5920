/* SPDX-License-Identifier: MIT */
/* Where a run's spec comes from: the command line.

   Job: parse, refuse, check what excludes or needs what: here and nowhere else. Prints errors; for main only. */
#pragma once

#include "core/command/cli.h"
#include "replay/engine/run_spec.h"

extern const char *const order_names[ORDERS];
extern const char *const touch_names[TOUCH_POLICIES];

/* Fills in the spec, whose texts stay those of the words. Returns CLI_RUN, or an exit status: help was printed, or an
   error. */
int spec_from_words(struct run_spec *spec, struct cli_words words);

/* Prints all passes, orders and touch policies as JSON, from which Python has its list: one fact, one place. Returns
   the exit status. */
int spec_describe(void);
