/* SPDX-License-Identifier: MIT */
/* The keeper: a child of the recorder that redirects a process to be recorded, and puts everything back when the
   recorder ends, however it ends.

   Invariants: it holds nothing of the collector's, so that the recorder's end is seen by the recorded processes; it
   ignores the signals of a terminal. Its words come through the voice, on its own process's behalf. */
#pragma once

#include "capture/recorder/redirect/redirect.h"

struct keeper_voice {
  void (*waiting)(int pid); /* no thread of the process has called malloc for some seconds */
  void (*began)(int pid, const struct redirection *redirection);
  void (*ended)(int pid, uint32_t processes); /* everything was put back in so many */
  void (*failed)(const struct error *error);
};

struct keeper {
  int pid;  /* of the keeper */
  int line; /* closed: it is to end */
};

/* Starts it; before the collector is opened. */
int keeper_start(struct keeper *keeper, struct redirect_orders *orders, const struct keeper_voice *voice,
                 struct error *error);

/* Tells it where the collector is: it begins. */
void keeper_begin(const struct keeper *keeper, const char *setting);

/* Tells it to put everything back. */
void keeper_end(struct keeper *keeper);
