/* SPDX-License-Identifier: MIT */
/* A program under Valgrind: finds our tool (observe/valgrind) and the launcher of the Valgrind that it is linked with;
   the options, the environment, and a temporary directory for Valgrind's files; the error in its log about a program
   that it can't run.

   Job: where tool and launcher are, and all steps from there to Valgrind's result. `make` and every package put both
   into valgrind/ beside heaptape's programs, with the files that the tool needs: neither depends on the Valgrind of the
   system, which may be missing or of another version. Invariants: each process's messages go to its own log in the
   directory, never to the program's stderr; a failed allocation is sticky and makes valgrind_command_exec fail. Not
   thread-safe. */
#pragma once

#include "core/base/error.h"
#include "core/base/vector.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct valgrind {
  char program[4096];  /* what to execute: the tool itself, which is linked statically. No shell and no dynamic linker
                          must run with the allocator or the C library under test */
  char launcher[4096]; /* what Valgrind executes for children that it follows */
  char library[4096];  /* VALGRIND_LIB: the folder of the tool */
};

/* Returns 0, or -1 with a line in why: the tool was not built, or is not for this processor. */
int valgrind_find(struct valgrind *valgrind, char *why, size_t why_bytes);

/* All zero, except valgrind, which the caller fills in (valgrind_find) before valgrind_command_open. */
struct valgrind_command {
  struct valgrind valgrind;
  char directory[4000];     /* in TMPDIR, or /tmp; empty: not made */
  char output[4016];        /* a file in it, for the tool's result if the caller has no other place; not created here */
  VECTOR(char *) arguments; /* "valgrind", and its options */
  bool failed;              /* out of memory */
};

/* Makes the temporary directory, and the options that every command has. Returns 0, or -1 with error; call
   valgrind_command_close in either case. */
int valgrind_command_open(struct valgrind_command *command, struct error *error);

/* Adds one option. */
__attribute__((format(printf, 2, 3))) void valgrind_command_add(struct valgrind_command *command, const char *format,
                                                                ...);

/* Adds our tool in that mode. Makes room for that many threads at a time and some more, VALGRIND_MOST_THREADS at most.
   By default Valgrind has room for 500, and ends with an error at the next one. Each costs 7 KB.
   valgrind_command_add_live makes room for 5,000, as the number is unknown. */
enum { VALGRIND_MOST_THREADS = 33000 };
void valgrind_command_add_tool(struct valgrind_command *command, const char *mode, uint32_t threads);

/* Adds the options of our tool for a live program, which should run as it does without Valgrind. follow: the programs
   that it starts run under the tool, too. */
void valgrind_command_add_live(struct valgrind_command *command, const char *mode, bool follow);

/* In the child: sets the environment that valgrind_command_exec needs. A separate step, for callers whose environment
   must not change afterwards. */
void valgrind_command_set_environment(const struct valgrind_command *command);

/* In the child: execs Valgrind with the program. Valgrind looks up a name without a slash in PATH. arguments: those
   after the program's name, up to NULL. Returns only if that fails, with errno. */
void valgrind_command_exec(struct valgrind_command *command, const char *program, char *const *arguments);

/* The path of a process's log. It exists only if Valgrind's tool has started in that process. */
void valgrind_command_log(const struct valgrind_command *command, int pid, char *path, size_t bytes);

/* Removes the directory with its contents, and frees the options. Does nothing to a command that is all zero. */
void valgrind_command_close(struct valgrind_command *command);

/* Finds the first line of the log at path that is Valgrind's own, and copies its message to line. False, and line
   empty: there is none. */
bool valgrind_complaint(const char *path, char *line, size_t bytes);
