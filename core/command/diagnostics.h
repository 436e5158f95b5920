/* SPDX-License-Identifier: MIT */
/* Lines on standard error, and the options on them: --color and --quiet, which all our programs have.

   Job: the two options; the form "PROGRAM: text"; colour. Not its job: deciding what to report. Called by mains only,
   from one thread. Errors and warnings are always printed, notes and progress not with --quiet. Colour: with --color
   auto, at a terminal that is not "dumb", unless NO_COLOR is set and not empty. Keeps errno. */
#pragma once

#include <stdbool.h>

/* For a table of getopt_long: the values are above those of the programs' own options. */
enum { DIAGNOSTICS_COLOR = 0x4000, DIAGNOSTICS_QUIET };
#define DIAGNOSTICS_COLOR_OPTION "color", required_argument, NULL, DIAGNOSTICS_COLOR
#define DIAGNOSTICS_QUIET_OPTION "quiet", no_argument, NULL, DIAGNOSTICS_QUIET
#define DIAGNOSTICS_HELP                                                                                               \
  "  --color auto|always|never\n"                                                                                      \
  "                       colour errors and warnings: at a terminal (auto, unless NO_COLOR is set), always or never\n" \
  "  --quiet              neither progress nor notes on standard error; errors and warnings stay\n"

/* Handles one of the two options. False: it is neither, or --color has an unknown value. */
bool diagnostics_take(int option, const char *value);

/* Is --quiet in effect: no progress, no notes? */
bool diagnostics_quiet(void);

/* Begins a line: the program's name, in colour where that is on. The caller writes the text and ends the line. */
void diagnostics_begin_error(const char *program);

/* Each prints a line; the format has no newline. */
__attribute__((format(printf, 2, 3))) void diagnostics_error(const char *program, const char *format, ...);
__attribute__((format(printf, 2, 3))) void diagnostics_warning(const char *program, const char *format, ...);
