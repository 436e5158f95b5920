/* SPDX-License-Identifier: MIT */
/* Records a process that runs: brings our library in, redirects references to malloc's family, and the functions of an
   allocator in the executable, to its hooks, and puts everything back.

   Not its job: what the hooks record (capture/host), who collects it. Invariants: a reference is redirected only where
   it goes to the function that its name means in the program, and put back only where it goes to our hook; both while
   all threads are held. What is needed to put it back stands in the process itself (capture/wire/redirect.h), so that
   any recorder can do it, at any time. Allocates with malloc. */
#pragma once

#include "capture/recorder/redirect/linked_running.h"
#include "capture/recorder/redirect/loading.h"
#include "capture/wire/redirect.h"

#include <stdbool.h>

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
  uint64_t chain;    /* tells one list of objects from another */
  uint32_t rounds;   /* of redirect_keep since it changed */
  uint32_t redirected, objects;
  uint32_t functions; /* in the executable */
  uint32_t elsewhere; /* references by one of the names that go to another function, or nowhere yet */
};

/* From its return on, each call by a reference is recorded. -1: nothing is redirected; error is empty where it was
   not wanted any more. */
int redirect_begin(struct redirection *redirection, const struct redirect_orders *orders, struct error *error);

/* Redirects what objects that were loaded since refer to; to be called now and then. False: the program has ended, or
   has executed another. */
bool redirect_keep(struct redirection *redirection);

/* Puts all references back, in fork children too. *processes: in so many. -1: in one of them that could not be done. */
int redirect_end(struct redirection *redirection, uint32_t *processes, struct error *error);

/* The same for a process of which nothing is known but that it may have been redirected with that setting. Of another's
   recording nothing is changed. -1 with an empty error: our library is not in it. */
int redirect_undo(int pid, const char *setting, uint32_t *processes, struct error *error);

void redirect_close(struct redirection *redirection);
