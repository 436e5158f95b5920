/* SPDX-License-Identifier: MIT */
/* Records a running process: loads our library into it, redirects references to the malloc API, and the functions of an
   allocator in the executable, to its hooks, and puts everything back.

   Not its job: what the hooks record (capture/host), who collects it. Invariants: a reference is redirected only where
   it leads to the function that its name means in the program, and put back only where it leads to our hook; both while
   all threads are held. What is needed to put it back is in the process itself (capture/wire/redirect.h), so that any
   recorder can do it, at any time. Allocates with malloc. */
#pragma once

#include "capture/redirect/linked.h"
#include "capture/wire/redirect.h"

#include <stdbool.h>
#include <stdint.h>

/* Loading a library into a running process (loading.c): in one of its own threads, while this thread holds no lock of
   the allocator or of the dynamic linker. Where the library is not loaded, all references and functions are as they
   were. */
struct loading {
  const char *library;                    /* path, here */
  const char *setting;                    /* of the recorder */
  struct linked_running *linked;          /* the allocator in the executable */
  bool (*should_continue)(void *context); /* false: give up */
  void (*report_waiting)(void *context);  /* no thread has reached the relay for some seconds */
  void *context;
};

/* -1: the library is not loaded; error is empty where it was not wanted any more. After success, references may lead to
   the relay's entries, and functions of the executable do. */
int loading_bring(const struct loading *loading, struct tracee *tracee, struct error *error);

/* Is that the address of an entry of a relay, possibly an earlier recorder's? *real: the function behind it. */
bool relay_entry_at(const struct tracee *tracee, uint64_t address, uint64_t *real);

struct redirect_orders {
  int pid;
  const char *setting;    /* collector_address */
  struct loading loading; /* of our library; linked and setting are filled in */
};

struct redirection {
  struct tracee tracee;
  struct linked_running linked;
  const char *setting;
  struct redirect_table table;
  uint64_t table_at; /* in the process */
  uint64_t chain;    /* distinguishes one list of objects from another */
  uint32_t rounds;   /* calls of redirect_keep since chain changed */
  uint32_t redirected, objects;
  uint32_t functions; /* in the executable */
  uint32_t elsewhere; /* references by one of the names that lead to another function, or nowhere yet */
};

/* After its return, each call by a reference is recorded. -1: nothing is redirected; error is empty where it was not
   wanted any more. */
int redirect_begin(struct redirection *redirection, const struct redirect_orders *orders, struct error *error);

/* Redirects the references of objects loaded since; to be called now and then. False: the program has ended, or has
   executed another. */
bool redirect_keep(struct redirection *redirection);

/* Puts all references back, in fork children too. *processes: in how many processes. -1: it failed in one of them. */
int redirect_end(struct redirection *redirection, uint32_t *processes, struct error *error);

/* The same for a process of which it is only known that it may have been redirected with that setting. Nothing of
   another recorder's recording is changed. -1 with an empty error: our library is not in it. */
int redirect_undo(int pid, const char *setting, uint32_t *processes, struct error *error);

void redirect_close(struct redirection *redirection);

/* Can a running process be recorded? Looks at it from outside, before anything in it is touched (target.c), and holds
   it only to read filters of system calls; reasons that only its memory shows are refused later. 0, or -1 with the
   reason.
   */
int target_check(int pid, struct error *error);

/* The part of it that a process could make untrue later, by executing a setuid program: is it plainly one user's, and
   may this recorder trace it? Asked again once its memory is open, which is then that of the program asked about. */
int target_check_owner(int pid, struct error *error);

/* Is that file of the process's /proc entry, "root" or "ns/NAME", another than ours? (target.c) */
bool target_differs(int pid, const char *name);

/* Has it loaded libheaptape.so? (target.c) */
bool target_has_our_library(int pid);

/* Do paths mean other files in the process than here? (target.c) */
bool target_has_other_files(int pid);

/* A Unix socket for SEQPACKET in the process's network namespace, non-blocking (target.c). -1: it can't be made. */
int target_socket(int pid);

/* What the file of a program says (target.c). */
struct program_file {
  enum { PROGRAM_FOR_US, PROGRAM_OF_OTHER_MACHINE, PROGRAM_DAMAGED } kind;
  char loader[256]; /* path of its dynamic loader, and what follows in the file; empty: it names none */
};
void program_file_read(int fd, struct program_file *file);
