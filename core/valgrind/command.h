/* SPDX-License-Identifier: MIT */
/* A program under Valgrind: the options, the environment, and a temporary directory for what Valgrind writes.

   Job: all that stands between finding Valgrind and having its result. Not its job: which Valgrind and which tool
   (launch.h), what a tool's options and results mean. Invariants: each process's messages go to a log of its own in the
   directory, never to the program's stderr; a failed allocation is sticky and makes valgrind_command_exec fail. Not
   thread-safe. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"
#include "core/valgrind/launch.h"

#include <stdbool.h>
#include <stdint.h>

/* All zero, but for valgrind, which the caller fills in (launch.h) before valgrind_command_open. */
struct valgrind_command {
  struct valgrind valgrind;
  char directory[32];       /* temporary; empty: not made */
  char output[48];          /* a file in it, for the tool's result if the caller has no other place; not made */
  VECTOR(char *) arguments; /* "valgrind", and its options */
  bool failed;              /* out of memory */
};

/* Makes the temporary directory, and the options that every command has. Returns 0, or -1 with error;
   valgrind_command_close in either case. */
int valgrind_command_open(struct valgrind_command *command, struct error *error);

/* Adds one option. */
__attribute__((format(printf, 2, 3))) void valgrind_command_add(struct valgrind_command *command, const char *format,
                                                                ...);

/* Room for so many threads at a time and some more, VALGRIND_MOST_THREADS at most. Valgrind itself has it for 500, and
   ends with an error at the next one. Each costs 7 KB. valgrind_command_add_live makes room for 5,000, as nobody knows.
 */
enum { VALGRIND_MOST_THREADS = 33000 };
void valgrind_command_threads(struct valgrind_command *command, uint32_t threads);

/* Adds the options of our tool for a live program, which is to run as it does without Valgrind. follow: the programs
   that it starts run under the tool, too. */
void valgrind_command_add_live(struct valgrind_command *command, const char *mode, bool follow);

/* In the child: sets the environment that valgrind_command_exec needs. A step of its own, for callers whose environment
   must not change afterwards. */
void valgrind_command_set_environment(const struct valgrind_command *command);

/* In the child: becomes the program under Valgrind, which looks a name without a slash up in PATH. arguments: those
   after its name, up to NULL. Returns only if that fails, with errno. */
void valgrind_command_exec(struct valgrind_command *command, const char *program, char *const *arguments);

/* The path of a process's log. Nothing has made it unless Valgrind's tool has started in that process. */
void valgrind_command_log(const struct valgrind_command *command, int pid, char *path, size_t bytes);

/* Removes the directory with all that is in it, and frees the options. A command that is all zero is left as it is. */
void valgrind_command_close(struct valgrind_command *command);
