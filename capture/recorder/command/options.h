/* SPDX-License-Identifier: MIT */
/* The command line of heaptape-record: one table, from which words are parsed and refused, and --help and
   --describe-options are printed (core/command/cli.h); which options exclude or need one another */
#pragma once

#include "capture/recorder/command/settings.h"
#include "core/command/cli.h"

struct command {
  struct collector_settings settings; /* as the options set it */
  const char *preload;                /* NULL: none */
  int toggle_signal;                  /* starts and stops the recording when the recorder receives it; 0: none */
  bool describe;
  bool own_mappings;  /* for large objects of glibc's malloc */
  bool strict;        /* fail where a process was not recorded */
  bool all_processes; /* keep the files of small processes, and print all */
  int attach_pid;     /* of the running process to be recorded; 0: a program is started */
  char **arguments;   /* of the program to be recorded */
};

/* Fills in command, which has its defaults, from the options; argv is kept by reference. Returns CLI_RUN, or the exit
   status: help was printed, or an error. */
int options_parse(struct command *command, int argc, char **argv);

/* For tables of options. Take a number of bytes (K, M and G mean powers of 1024); a signal, unless the recorder uses it
   itself or it cannot be caught. */
const char *options_bytes(void *field, const char *value);
const char *options_signal(void *field, const char *value);

/* "USR2", "SIGUSR2", "RTMIN+3" or a number. 0: there is no such signal. */
int options_find_signal(const char *value);
