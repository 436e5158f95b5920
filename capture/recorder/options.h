/* The command line of heaptape-record.

   Belongs to the program, not to a library: wrong usage is told on standard error and ends the process with status 2.
 */
#ifndef CAPTURE_RECORDER_OPTIONS_H
#define CAPTURE_RECORDER_OPTIONS_H

#include "capture/recorder/collector_settings.h"

struct command {
  struct collector_settings settings; /* what the options say of it; output and numbers, no callbacks */
  const char *preload;                /* NULL: none */
  int toggle_signal;                  /* that starts and stops the recording when the recorder gets it; 0: none */
  bool describe;
  char **arguments; /* of the program to be recorded */
};

/* Fills in what the options say; argv is kept by reference. */
void options_parse(struct command *command, int argc, char **argv);

#endif
