/* SPDX-License-Identifier: MIT */
#include "capture/recorder/collector_state.h"

#include "capture/recorder/describe.h"
#include "capture/recorder/processes/process_state.h"
#include "core/base/os.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
  STEP_NS = 1000000,
  BETWEEN_SLEEP_NS = 50000000,   /* a burst begins late by at most this */
  IDLE_SLEEP_NS = 1000000000,    /* while the program sleeps, too */
  DEBT_SLEEP_NS = 200000000,     /* where even waking would cost more than the program earns */
  BETWEEN_SAMPLE_NS = 1000000000 /* from one sample of the program's memory to the next, between bursts */
};

/* Time until the next try when a file could not be begun. */
static const uint64_t ROTATE_AGAIN_NS = 1000000000;

/* CPU time in the program per call, besides the recorder's own, which is measured: rounded up from the table
   "Optional columns" of docs/measurements/capture.md, and from its section "Pauses". */
enum {
  RECORDED_NS = 10,
  STAMPED_NS = 30,
  USABLE_NS = 15,
  LATENCY_NS = 65,
  STACK_NS = 60,
  LIBUNWIND_NS = 400,
  SKIPPED_NS = 2
};

static bool has_budget(const struct collector *collector) {
  return collector->settings->budget > 0;
}

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  return clock_gettime(clock, &now) == 0 ? (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec : 0;
}

static double recorded_call_ns(const struct collector_settings *settings) {
  double ns = settings->flags & ATTACH_STAMP_EVERY ? STAMPED_NS : RECORDED_NS;
  ns += settings->flags & ATTACH_USABLE ? USABLE_NS : 0;
  ns += settings->flags & ATTACH_LATENCY ? LATENCY_NS : 0;
  if (settings->flags & ATTACH_STACKS)
    ns += settings->stack_unwind == UNWIND_LIBUNWIND ? LIBUNWIND_NS : STACK_NS;
  return ns;
}

void upkeep_begin(struct collector *collector) {
  if (!has_budget(collector))
    return;
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = os_cycles();
  struct budget *budget = &collector->upkeep.budget;
  budget->recorded_ns = recorded_call_ns(collector->settings);
  budget->skipped_ns = SKIPPED_NS;
  budget_begin(budget, collector->settings->budget, seed);
  collector->upkeep.between = collector->settings->budget_after_ns == 0;
  collector->upkeep.stepped_ns = os_monotonic_ns();
  collector->upkeep.recorder_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int upkeep_first_file(const struct collector *collector, struct process_upkeep **upkeep, char *path, size_t bytes,
                      char **info) {
  *upkeep = NULL;
  if (!has_budget(collector) && !collector->settings->rotate_bytes)
    return 0;
  struct process_upkeep *made = calloc(1, sizeof *made);
  if (!made)
    return -1;
  *upkeep = made;
  if (!collector->settings->rotate_bytes)
    return 0;
  file_set_begin(&made->files, path);
  file_set_path(&made->files, made->files.number, path, bytes);
  made->info_json = *info;
  struct describe_file file = {made->files.id, made->files.number, made->files.first, made->files.first, 0};
  *info = describe_file_info(made->info_json, &file);
  return *info ? 0 : -1;
}

void upkeep_process_begins(struct collector *collector, struct recorded_process *process,
                           struct process_upkeep *upkeep) {
  process->upkeep = upkeep;
  if (!upkeep || !has_budget(collector))
    return;
  upkeep->program_ns = process_upkeep_cpu_ns(process->pid);
  upkeep->bursts = !collector->upkeep.between;
  process->pause_word = "paused, or between bursts";
  process_regions_pause(process, PAUSED_BY_BUDGET, collector->upkeep.between);
}

static void add_time(struct recorded_process *process, uint64_t ns) {
  process->upkeep->ns += ns;
  process->upkeep->recorded_ns += process_regions_paused(process) ? 0 : ns;
}

static void switch_bursts(struct collector *collector, bool between) {
  collector->upkeep.between = between;
  collector->upkeep.bursts += !between;
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    process_regions_pause(process, PAUSED_BY_BUDGET, between);
    process->upkeep->bursts += !between;
    if (!between)
      process->sampler.next_ns = 0;
  }
  collector_advance_tick(collector);
}

static void keep_budget(struct collector *collector, uint64_t now_ns) {
  uint64_t elapsed_ns = now_ns - collector->upkeep.stepped_ns;
  if (elapsed_ns < STEP_NS)
    return;
  collector->upkeep.stepped_ns = now_ns;
  struct budget_use use = collector->upkeep.ended;
  collector->upkeep.ended = (struct budget_use){0};
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    process_upkeep_add_use(collector->processes.at[i], &use);
    add_time(collector->processes.at[i], elapsed_ns);
  }
  uint64_t recorder_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  use.recorder_ns = recorder_ns - collector->upkeep.recorder_ns;
  collector->upkeep.recorder_ns = recorder_ns;
  if (now_ns - collector->origin.ns < collector->settings->budget_after_ns)
    return;
  collector->upkeep.idle = use.program_ns == 0;
  bool between = !budget_step(&collector->upkeep.budget, &use);
  if (between != collector->upkeep.between)
    switch_bursts(collector, between);
}

static void complain_once(struct collector *collector, struct process_upkeep *upkeep, const struct error *error) {
  if (!upkeep->complained)
    collector->settings->complain(error);
  upkeep->complained = true;
}

/* Surplus files are deleted only when the newest file exists and its predecessor is complete. */
static void trim(struct collector *collector, struct process_upkeep *upkeep) {
  struct error error = {""};
  uint32_t oldest = upkeep->files.oldest;
  uint64_t bytes = upkeep->files.deleted_bytes;
  if (file_set_trim(&upkeep->files, collector->settings->keep, &error) != 0)
    complain_once(collector, upkeep, &error);
  collector->upkeep.files_deleted += upkeep->files.oldest - oldest;
  bytes = upkeep->files.deleted_bytes - bytes;
  collector->closed_bytes -= bytes < collector->closed_bytes ? bytes : collector->closed_bytes;
}

static uint32_t oldest_kept(const struct collector *collector, const struct file_set *files, uint32_t number) {
  uint32_t keep = collector->settings->keep;
  return number - files->first > keep ? number - keep : files->first;
}

static void advance_tick(void *context) {
  collector_advance_tick(context);
}

/* Begins the next file at one stamp for all threads, after which the tick is advanced, as for the end of a recording
   (collector_state.c). */
static void rotate(struct collector *collector, struct recorded_process *process) {
  struct process_upkeep *upkeep = process->upkeep;
  recorded_process_flush_in_turns(process, advance_tick, collector);
  if (process->given_up)
    return;
  uint32_t number = upkeep->files.number + 1;
  uint64_t stamp = collector_stamp(collector);
  collector_advance_tick(collector);
  char path[4096 + 32], before[4096 + 32];
  file_set_path(&upkeep->files, number, path, sizeof path);
  snprintf(before, sizeof before, "%s", process->path);
  struct describe_file file = {upkeep->files.id, number, upkeep->files.first,
                               oldest_kept(collector, &upkeep->files, number), stamp};
  char *info = describe_file_info(upkeep->info_json, &file);
  struct recording_next next = {path, info, stamp, collector_clock_hz(collector)};
  struct process_totals totals;
  struct error error = {""};
  bool ended = false;
  process_upkeep_note(&collector->upkeep, process);
  if (info && recorded_process_rotate(process, &next, &totals, &ended, &error) == 0)
    upkeep->complained = false;
  free(info);
  if (!ended) {
    complain_once(collector, upkeep, &error);
    upkeep->again_ns = os_monotonic_ns() + ROTATE_AGAIN_NS;
    return;
  }
  upkeep->files.number = number;
  upkeep->ns = upkeep->recorded_ns = 0;
  upkeep->bursts = !collector->upkeep.between;
  collector->closed_bytes += totals.totals.file_bytes;
  struct process_summary summary = {.pid = process->pid,
                                    .parent_pid = process->parent_pid,
                                    .goes_on = true,
                                    .number = process->number,
                                    .name = process->name,
                                    .path = before,
                                    .end = "rotated",
                                    .totals = &totals};
  collector->settings->report(&summary, &error);
  if (!error.text[0])
    trim(collector, upkeep);
}

static void keep_sizes(struct collector *collector, uint64_t now_ns) {
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    if (process->upkeep && !process->given_up && now_ns >= process->upkeep->again_ns &&
        recorded_process_file_bytes(process) >= collector->settings->rotate_bytes)
      rotate(collector, process);
  }
}

void upkeep_serve(struct collector *collector) {
  if (collector->ended || (!has_budget(collector) && !collector->settings->rotate_bytes))
    return;
  uint64_t now_ns = os_monotonic_ns();
  if (has_budget(collector))
    keep_budget(collector, now_ns);
  if (collector->settings->rotate_bytes)
    keep_sizes(collector, now_ns);
}

uint64_t upkeep_sleep_ns(const struct collector *collector, uint64_t otherwise) {
  if (!has_budget(collector) || !collector->upkeep.between)
    return otherwise;
  if (collector->upkeep.idle)
    return IDLE_SLEEP_NS;
  const struct budget *budget = &collector->upkeep.budget;
  return budget->credit_ns < -budget->share * BUDGET_PERIOD_NS / 4 ? DEBT_SLEEP_NS : BETWEEN_SLEEP_NS;
}

uint64_t upkeep_sample_ns(const struct collector *collector, uint64_t otherwise) {
  bool between = has_budget(collector) && collector->upkeep.between;
  return between && otherwise < BETWEEN_SAMPLE_NS ? BETWEEN_SAMPLE_NS : otherwise;
}
