/* SPDX-License-Identifier: MIT */
/* The keeper: a child of the recorder that redirects a process to be recorded, and puts everything back when the
   recorder ends, however it ends.

   Invariants: it holds no descriptor of the collector, so that the recorded processes see the recorder's end; it
   ignores the signals of a terminal. It reports through the voice, whose functions run in the keeper's process. */
#pragma once

#include "capture/redirect/redirect.h"

struct keeper_voice {
  void (*waiting)(int pid); /* no thread of the process has called malloc for some seconds */
  void (*began)(int pid, const struct redirection *redirection);
  void (*ended)(int pid, uint32_t processes); /* everything was put back in this many processes */
  void (*failed)(const struct error *error);
};

struct keeper {
  int pid;  /* of the keeper */
  int line; /* pipe to the keeper; closing it ends the keeper */
};

/* Starts the keeper; called before the collector is opened. */
int keeper_start(struct keeper *keeper, struct redirect_orders *orders, const struct keeper_voice *voice,
                 struct error *error);

/* Sends it the collector's address, with which it begins. */
void keeper_begin(const struct keeper *keeper, const char *setting);

/* Makes it put everything back. */
void keeper_end(struct keeper *keeper);
