/* SPDX-License-Identifier: MIT */
/* Records a running process: loads our library into it, redirects references to the malloc API, and the functions of an
   allocator in the executable, to its hooks, and puts everything back.

   Not its job: what the hooks record (capture/host), who collects it. Invariants: a reference is redirected only where
   it leads to the function that its name means in the program, and put back only where it leads to our hook; both while
   all threads are held. What is needed to put it back is in the process itself (capture/wire/redirect.h), so that any
   recorder can do it, at any time. Allocates with malloc. */
#pragma once

#include "capture/attach/linked_running.h"
#include "capture/attach/loading.h"
#include "capture/wire/redirect.h"

#include <stdbool.h>
#include <stdint.h>

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
