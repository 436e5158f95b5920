/* SPDX-License-Identifier: MIT */
/* The command line of heaptape-record.

   Part of the program, not of a library: wrong usage is printed on standard error and ends the process with status 2.
 */
#pragma once

#include "capture/recorder/collector_settings.h"

struct command {
  struct collector_settings settings; /* as the options set it; no callbacks */
  const char *preload;                /* NULL: none */
  int toggle_signal;                  /* starts and stops the recording when the recorder receives it; 0: none */
  bool describe;
  bool own_mappings; /* for large objects of glibc's malloc */
  int attach_pid;    /* of the running process to be recorded; 0: a program is started */
  char **arguments;  /* of the program to be recorded */
};

/* Fills in command from the options; argv is kept by reference. */
void options_parse(struct command *command, int argc, char **argv);
