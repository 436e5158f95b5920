/* SPDX-License-Identifier: MIT */
/* Progress with an estimate of the time left, on stderr: only if stderr is a terminal, and only after 2 seconds of
   work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct progress {
  const char *label;
  uint64_t total; /* 0: not known */
  uint64_t began_ns, shown_ns;
  bool terminal, shown;
};

void progress_begin(struct progress *progress, const char *label, uint64_t total);
void progress_show(struct progress *progress, uint64_t done);

/* Removes the line. */
void progress_end(struct progress *progress);
