/* SPDX-License-Identifier: MIT */
#include "core/command/progress.h"

#include "core/base/os.h"
#include "core/command/diagnostics.h"

#include <stdio.h>
#include <unistd.h>

#define SILENT_NS 2000000000u
#define INTERVAL_NS 250000000u

void progress_begin(struct progress *progress, const char *label, uint64_t total) {
  *progress = (struct progress){.label = label,
                                .total = total,
                                .began_ns = os_monotonic_ns(),
                                .terminal = isatty(STDERR_FILENO) == 1 && !diagnostics_quiet()};
}

void progress_show(struct progress *progress, uint64_t done) {
  if (!progress->terminal)
    return;
  uint64_t now_ns = os_monotonic_ns();
  if (now_ns - progress->began_ns < SILENT_NS || now_ns - progress->shown_ns < INTERVAL_NS)
    return;
  progress->shown_ns = now_ns;
  progress->shown = true;
  double seconds = (double)(now_ns - progress->began_ns) / 1e9, millions = (double)done / 1e6;
  if (progress->total && done)
    fprintf(stderr, "\r%s: %.0f %%, %.1f million events/s, %.0f s left \033[K", progress->label,
            100.0 * (double)done / (double)progress->total, millions / seconds,
            seconds * ((double)progress->total / (double)done - 1.0));
  else
    fprintf(stderr, "\r%s: %.1f million events \033[K", progress->label, millions);
  fflush(stderr);
}

void progress_end(struct progress *progress) {
  if (progress->shown)
    fprintf(stderr, "\r\033[K");
}
