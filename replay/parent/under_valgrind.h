/* The engine under Valgrind: what the passes that need it share.

   Job: a temporary directory for what Valgrind leaves there, Valgrind's options, becoming the engine under it. Not its
   job: which Valgrind and which tool (core/valgrind/launch.h), what the results mean (instruction_counter.h,
   miss_counter.h). Single-threaded. */
#ifndef REPLAY_PARENT_UNDER_VALGRIND_H
#define REPLAY_PARENT_UNDER_VALGRIND_H

#include "core/base/error.h"
#include "core/valgrind/launch.h"

enum { VALGRIND_OPTION_LIMIT = 12, VALGRIND_OPTION_BYTES = 4096 + 32 };

struct under_valgrind {
  struct valgrind valgrind; /* filled in by the caller */
  char directory[64];       /* temporary; empty: not made */
  char output[96], log[96]; /* in it; a caller's option names output */
  char engine[4096];        /* path of this program */
  unsigned option_count;
  char options[VALGRIND_OPTION_LIMIT][VALGRIND_OPTION_BYTES];
};

/* Makes the temporary directory, and the option that names the log. Returns 0, or -1 with error filled in.
   under_valgrind_finish in either case. */
int under_valgrind_begin(struct under_valgrind *under, struct error *error);

/* Adds one option, of less than VALGRIND_OPTION_BYTES; at most VALGRIND_OPTION_LIMIT - 1. */
__attribute__((format(printf, 2, 3))) void under_valgrind_add(struct under_valgrind *under, const char *format, ...);

/* In the child: sets the environment that under_valgrind_exec needs. */
void under_valgrind_set_environment(const struct under_valgrind *under);

/* In the child: becomes `ENGINE ARGUMENT` under Valgrind. Returns only if that fails. */
void under_valgrind_exec(const struct under_valgrind *under, const char *argument);

/* Removes what it made. */
void under_valgrind_finish(struct under_valgrind *under);

#endif
