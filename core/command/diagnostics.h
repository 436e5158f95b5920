/* SPDX-License-Identifier: MIT */
/* What our programs say on standard error, and the options on it: --color and --quiet, which all of them have.

   Job: the two options; errors and warnings in the form "PROGRAM: text"; colour; the option or command that a user
   probably meant; progress with an estimate of the time left. Called by mains only, from one thread. Errors and
   warnings are always printed, notes and progress not with --quiet. Colour: with --color auto, at a terminal that is
   not "dumb", unless NO_COLOR is set and not empty. Progress: only at a terminal, and only after 2 seconds of work.
   Keeps errno. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* What the two options say; cli.c sets it. */
extern struct diagnostics {
  enum { DIAGNOSTICS_AUTO, DIAGNOSTICS_ALWAYS, DIAGNOSTICS_NEVER } color;
  bool quiet; /* no progress, no notes */
} diagnostics;

/* Begins a line: the program's name, in colour where that is on. The caller writes the text and ends the line. */
void diagnostics_begin_error(const char *program);

/* Each prints a line; the format has no newline. */
__attribute__((format(printf, 2, 3))) void diagnostics_error(const char *program, const char *format, ...);
__attribute__((format(printf, 2, 3))) void diagnostics_warning(const char *program, const char *format, ...);

/* Returns the name nearest to word, as the user gave it ("--flag" or "--flag=value"), in options, which end with one
   without a name. NULL: word is not a long option, is one of them (then something else is wrong), or none is near. */
const char *near_option(const char *word, const struct option *options);

/* Returns the word nearest to word in known, which ends with NULL. NULL: it is one of them, or none is near. */
const char *near_word(const char *word, const char *const *known);

struct progress {
  const char *label;
  uint64_t total; /* 0: not known */
  uint64_t began_ns, shown_ns;
  bool terminal, shown;
};

void progress_begin(struct progress *progress, const char *label, uint64_t total);
void progress_show(struct progress *progress, uint64_t done);

/* Removes the line. */
void progress_end(struct progress *progress);
