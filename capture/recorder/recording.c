/* SPDX-License-Identifier: MIT */
#include "capture/recorder/recording.h"

#include "core/base/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

struct recorded_process *collector_find(const struct collector *collector, int64_t pid) {
  for (uint32_t i = 0; i < collector->processes.count; i++)
    if (collector->processes.at[i]->pid == pid)
      return collector->processes.at[i];
  return NULL;
}

void collector_end_process(struct collector *collector, struct recorded_process *process, const char *end,
                           const struct process_end *how) {
  HT_ASSERT(collector_find(collector, process->pid) == process);
  for (uint32_t i = 0; i < collector->processes.count; i++)
    if (collector->processes.at[i] == process)
      collector->processes.at[i] = collector->processes.at[--collector->processes.count];
  char path[4096], name[sizeof process->name];
  snprintf(path, sizeof path, "%s", process->path);
  memcpy(name, process->name, sizeof name);
  struct process_totals totals;
  struct error error = {""};
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
  process_upkeep_free(upkeep);
  collector->closed_bytes += totals.totals.file_bytes;
  report_process(&summary, &error);
}

/* Each thread is drained at another time, and a ring drained later may have events that follow from events which an
   earlier drained ring did not show yet. So all are cut at one stamp, and the pass that closes them has begun after it.
   The tick is advanced in between, so that no step that follows an unrecorded step of a stopped thread can inherit a
   stamp below the cut. */
void collector_end_recording(struct collector *collector, const char *why) {
  collector->ended = true;
  uint64_t stamp = collector_stamp(collector);
  control_advance_tick(collector->control);
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    process_regions_stop(collector->processes.at[i]);
    recorded_process_cut(collector->processes.at[i], stamp, why);
  }
  while (collector->processes.count > 0)
    collector_end_process(collector, collector->processes.at[0], "stopped", NULL);
}

void collector_watch(const struct collector *collector, int fd) {
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  epoll_ctl(collector->epoll, EPOLL_CTL_ADD, fd, &event);
}
