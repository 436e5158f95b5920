/* SPDX-License-Identifier: MIT */
/* The restorer: a child of the recorder that redirects a process to be recorded, and puts everything back when the
   recorder ends, however it ends.

   Invariants: it holds no descriptor of the collector, so that the recorded processes see the recorder's end; it
   ignores the signals of a terminal. It reports through the callbacks, which run in the restorer's process. */
#pragma once

#include "capture/redirect/redirect.h"

struct restorer_callbacks {
  void (*waiting)(int pid); /* no thread of the process has called malloc for some seconds */
  void (*began)(int pid, const struct redirection *redirection);
  void (*ended)(int pid, uint32_t processes); /* everything was put back in this many processes */
  void (*failed)(const struct error *error);
};

struct restorer {
  int pid;  /* of the restorer */
  int line; /* pipe to the restorer; closing it ends the restorer */
};

/* Starts the restorer; called before the collector is opened. */
int restorer_start(struct restorer *restorer, struct redirect_orders *orders,
                   const struct restorer_callbacks *callbacks, struct error *error);

/* Sends it the collector's address, with which it begins. */
void restorer_begin(const struct restorer *restorer, const char *setting);

/* Makes it put everything back. */
void restorer_end(struct restorer *restorer);
