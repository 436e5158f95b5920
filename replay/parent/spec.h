/* SPDX-License-Identifier: MIT */
/* Where a run's spec comes from: the command line, or JSON from a descriptor. Both are one table of options.

   Job: parse, refuse, check what excludes or needs what: here and nowhere else. A spec in JSON is an object: its keys
   are the names of options, "workload" for the argument; a value is a text or a number, true for an option without
   value, an array for one that may be repeated. Prints errors; for main only. */
#pragma once

#include "core/base/cli.h"
#include "replay/engine/run_spec.h"

extern const char *const order_names[ORDERS];
extern const char *const touch_names[TOUCH_POLICIES];

/* Fill in the spec, whose texts stay those of the words, or stay allocated. Return CLI_RUN, or an exit status: help was
   printed, or an error. */
int spec_from_words(struct run_spec *spec, struct cli_words words);
int spec_from_fd(struct run_spec *spec, int fd);

/* Prints all passes, orders and touch policies as JSON, from which Python has its list: one fact, one place. Returns
   the exit status. */
int spec_describe(void);
