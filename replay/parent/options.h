/* SPDX-License-Identifier: MIT */
/* The command line of heaptape-replay. Not its job: acting on it (replay_main.c). Prints nothing itself; getopt_long
   names unknown options on stderr. */
#pragma once

#include "replay/parent/run.h"
#include "replay/passes/blame/origin_names.h"

enum { ARGUMENTS_LIMIT = 64 }; /* --preload and --env each */

struct options {
  struct run_request request; /* points into the options and the command line */
  char *preloads[ARGUMENTS_LIMIT + 1], *settings[ARGUMENTS_LIMIT + 1];
  unsigned preload_count, setting_count;
  bool have_pass, have_order, baseline, have_baseline, have_vm_baseline;
  struct baseline given;
  double engine_cycles_per_op; /* < 0: to be measured */
  struct origin_names origins;
  const char *at[BLAME_ASKED_LIMIT]; /* blame pass: positions as they were given */
  unsigned at_count;
  bool have_positions;
  const char *windows; /* passes instructions and misses: file of positions; NULL: none */
  const char *output;  /* NULL: standard output */
  char wrong[256];     /* the error in the command line */
};

enum options_verdict { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG };

extern const char options_usage[];

/* Fills in options, which must not move while their request is used. OPTIONS_WRONG: `wrong` has the reason. */
enum options_verdict options_parse(int count, char **arguments, struct options *options);
