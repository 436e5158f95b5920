/* SPDX-License-Identifier: MIT */
/* Functions that execute a program, as entry points: before the call, a note tells the collector of the program
   (capture/wire/exec_note.h), which may never attach, and end before the collector can look at it.

   Not its job: whether the program is recorded. Not seen: a program's own instructions. Invariants: the real call gets
   what the caller passed, without our LD_PRELOAD where the loader could not open the library, as it would print that
   on the program's standard error; where it fails, the note is taken back, and errno is the call's. A vfork child,
   which shares its parent's memory, and a fork child that has not attached use their parent's bank. Async-signal-safe,
   allocates nothing, needs no memory but the caller's stack. */
#pragma once

#include <stddef.h>

struct exec_note;

/* Notes a program that this process is about to execute; NULL: nothing is noted. path NULL, or empty: of descriptor fd.
 */
struct exec_note *exec_begins(const char *path, int fd, char *const *environment);

/* The call has returned. note may be NULL. */
void exec_failed(struct exec_note *note);

/* Room for what is passed of an environment. entries 0: all is. */
struct exec_kept {
  size_t entries, bytes;
};
struct exec_kept exec_kept_of(char *const *environment);
/* What is passed: the environment, or `entries` filled in; preload has room for bytes. */
char *const *exec_passed(char *const *environment, struct exec_kept kept, char **entries, char *preload);

/* Looks the real functions up, as that may not be possible later, in a child. */
void exec_calls_resolve(void);
