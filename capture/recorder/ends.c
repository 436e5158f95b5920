/* SPDX-License-Identifier: MIT */
#include "capture/recorder/ends.h"

#include "capture/recorder/command/report.h"
#include "capture/recorder/recording.h"
#include "capture/recorder/unfollowed.h"
#include "capture/recorder/upkeep.h"
#include "core/base/assert.h"
#include "core/system/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void collector_end_process(struct collector *collector, struct recorded_process *process, const char *end,
                           const struct process_end *how) {
  HT_ASSERT(collector_find(collector, process->pid) == process);
  for (uint32_t i = 0; i < collector->processes.count; i++)
    if (collector->processes.at[i] == process)
      collector->processes.at[i] = collector->processes.at[--collector->processes.count];
  unfollowed_process_ends(collector, process);
  char path[4096], name[sizeof process->name];
  snprintf(path, sizeof path, "%s", process->path);
  memcpy(name, process->name, sizeof name);
  struct process_totals totals;
  struct error error = {0};
  struct process_summary summary = {.pid = process->pid,
                                    .parent_pid = process->parent_pid,
                                    .number = process->number,
                                    .name = name,
                                    .path = path,
                                    .end = end,
                                    .totals = &totals};
  struct recording_end ending = {end, how, collector_clock_hz(collector)};
  struct process_upkeep *upkeep = process_upkeep_end(&collector->upkeep, process);
  recorded_process_close(process, &ending, &totals, &error);
  collector_served(collector);
  process_upkeep_free(upkeep);
  collector->closed_bytes += totals.totals.file_bytes;
  report_process(&summary, &error);
}

/* Each thread is drained at another time, and a ring drained later may have events that follow from events which an
   earlier drained ring did not show yet. So all are cut at one stamp, and the pass that closes them has begun after it.
   The tick is advanced in between, so that no step that follows an unrecorded step of a stopped thread can inherit a
   stamp below the cut. A history is one process's, so each may have a stamp of its own. */
void collector_end_recording(struct collector *collector, const char *why) {
  collector->ended = true;
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    uint64_t stamp = collector_stamp(collector, process->control);
    control_advance_tick(process->control);
    process_banks_stop(process);
    recorded_process_cut(process, stamp, why);
  }
  while (collector->processes.count > 0)
    collector_end_process(collector, collector->processes.at[0], "stopped", NULL);
}

const char *collector_end_of(const struct process_end *how) {
  return how->status_known && WIFSIGNALED(how->status) ? "killed" : "exit";
}

void collector_end_reaped(struct collector *collector, int pid) {
  struct recorded_process *process = collector_find(collector, pid);
  if (!process || !process_is_reaped(process->pid_fd))
    return;
  struct process_end how = process_end_read(process->pid_fd, process->sampler.stat_fd);
  collector_end_process(collector, process, collector_end_of(&how), &how);
}
