/* SPDX-License-Identifier: MIT */
#include "capture/recorder/upkeep.h"

#include "capture/recorder/command/describe.h"
#include "capture/recorder/command/report.h"
#include "capture/recorder/recording.h"
#include "core/base/os.h"
#include "core/system/process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number in "NAME.NUMBER.tape"; 0: another name. */
static uint32_t number_in(const char *file, const char *name) {
  size_t length = strlen(name);
  if (strncmp(file, name, length) != 0 || file[length] != '.')
    return 0;
  const char *digits = file + length + 1;
  size_t count = strspn(digits, "0123456789");
  if (count < 4 || count > 9 || strcmp(digits + count, ".tape") != 0)
    return 0;
  return (uint32_t)strtoul(digits, NULL, 10);
}

static uint32_t highest(const char *base) {
  char folder[4096];
  const char *slash = strrchr(base, '/'), *name = slash ? slash + 1 : base;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - base) : 1, slash ? base : ".");
  DIR *directory = opendir(folder);
  uint32_t highest_number = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    uint32_t number = number_in(entry->d_name, name);
    highest_number = number > highest_number ? number : highest_number;
  }
  if (directory)
    closedir(directory);
  return highest_number;
}

void file_set_begin(struct file_set *set, const char *path, uint32_t first) {
  snprintf(set->base, sizeof set->base, "%s", path);
  size_t length = strlen(set->base);
  if (length > 5 && strcmp(set->base + length - 5, ".tape") == 0)
    set->base[length - 5] = '\0';
  if (getrandom(&set->id, sizeof set->id, 0) != sizeof set->id)
    set->id = (uint64_t)getpid();
  set->first = set->oldest = set->number = first ? first : highest(set->base) + 1;
}

void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes) {
  snprintf(path, bytes, "%s.%04u.tape", set->base, number);
}

/* Deletes the set's files except the one being written and the `keep` before it. Returns 0; or -1 with error filled in:
   one could not be deleted, which is tried again the next time. A file that no longer exists is not an error. */
static int file_set_trim(struct file_set *set, uint32_t keep, struct error *error) {
  char path[4096 + 32];
  for (; set->number - set->oldest > keep; set->oldest++) {
    file_set_path(set, set->oldest, path, sizeof path);
    struct stat status = {0};
    stat(path, &status);
    if (unlink(path) == 0)
      set->deleted_bytes += (uint64_t)status.st_size;
    else if (errno != ENOENT)
      return error_errno(error, path, "can't be deleted");
  }
  return 0;
}

static void process_upkeep_add_use(struct recorded_process *process, struct budget_use *use) {
  struct process_upkeep *upkeep = process->upkeep;
  uint64_t skipped, recorded = recorded_process_calls(process, &skipped);
  uint64_t program_ns = proc_cpu_ns(process->pid);
  if (program_ns > upkeep->program_ns) {
    use->program_ns += program_ns - upkeep->program_ns;
    upkeep->program_ns = program_ns;
  }
  uint64_t reading_ns = recorded_process_reading_ns(process);
  use->reading_ns += reading_ns > upkeep->reading_ns ? reading_ns - upkeep->reading_ns : 0;
  upkeep->reading_ns = reading_ns;
  use->recorded += recorded > upkeep->recorded ? recorded - upkeep->recorded : 0;
  use->skipped += skipped > upkeep->skipped ? skipped - upkeep->skipped : 0;
  upkeep->recorded = recorded;
  upkeep->skipped = skipped;
}

static void process_upkeep_note(const struct upkeep *all, struct recorded_process *process) {
  struct process_upkeep *upkeep = process->upkeep;
  const struct budget *budget = &all->budget;
  if (!upkeep || budget->share <= 0)
    return;
  snprintf(
      upkeep->footer, sizeof upkeep->footer,
      "{\"budget\": {\"percent\": %.9g, \"used_percent\": %.9g, \"bursts\": %u, \"recorded_ns\": %llu, \"ns\": %llu}}",
      100 * budget->share, budget_used_percent(budget), upkeep->bursts, (unsigned long long)upkeep->recorded_ns,
      (unsigned long long)upkeep->ns);
  trace_writer_totals(process->writer)->more = upkeep->footer;
}

struct process_upkeep *process_upkeep_end(struct upkeep *upkeep, struct recorded_process *process) {
  if (process->upkeep && upkeep->budget.share > 0)
    process_upkeep_add_use(process, &upkeep->ended);
  process_upkeep_note(upkeep, process);
  return process->upkeep;
}

void process_upkeep_free(struct process_upkeep *upkeep) {
  if (upkeep)
    free(upkeep->info_json);
  free(upkeep);
}

enum {
  STEP_NS = 1000000,
  BETWEEN_SLEEP_NS = 50000000,   /* a burst begins late by at most this */
  IDLE_SLEEP_NS = 1000000000,    /* while the program sleeps, too */
  DEBT_SLEEP_NS = 200000000,     /* where even waking would cost more than the program earns */
  BETWEEN_SAMPLE_NS = 1000000000 /* from one sample of the program's memory to the next, between bursts */
};

/* Time until the next try when a file could not be begun. */
static const uint64_t ROTATE_AGAIN_NS = 1000000000;

/* CPU time in the program per call that is not recorded: column "between bursts" of the same table as
   describe_call_ns. */
enum { SKIPPED_NS = 2 };

static bool has_budget(const struct collector *collector) {
  return collector->settings->budget > 0;
}

void upkeep_begin(struct collector *collector) {
  if (!has_budget(collector))
    return;
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    seed = os_cycles();
  struct budget *budget = &collector->upkeep.budget;
  budget->recorded_ns = describe_call_ns(collector->settings);
  budget->skipped_ns = SKIPPED_NS;
  budget_begin(budget, collector->settings->budget, seed);
  collector->upkeep.between = collector->settings->budget_after_ns == 0;
  collector->upkeep.stepped_ns = os_monotonic_ns();
  collector->upkeep.recorder_ns = os_process_cpu_ns();
}

int upkeep_first_file(const struct collector *collector, struct process_upkeep **upkeep, char *path, size_t bytes,
                      char **info) {
  *upkeep = NULL;
  if (!has_budget(collector) && !collector->settings->rotate_bytes)
    return 0;
  struct process_upkeep *fresh = calloc(1, sizeof *fresh);
  if (!fresh)
    return -1;
  *upkeep = fresh;
  if (!collector->settings->rotate_bytes)
    return 0;
  char requested[PATH_MAX];
  describe_first_path(collector->settings, requested, sizeof requested);
  file_set_begin(&fresh->files, path, strcmp(path, requested) == 0 ? collector->settings->first_number : 0);
  file_set_path(&fresh->files, fresh->files.number, path, bytes);
  fresh->info_json = *info;
  struct describe_file file = {fresh->files.id, fresh->files.number, fresh->files.first, fresh->files.first, 0, NULL};
  *info = describe_file_info(fresh->info_json, &file);
  return *info ? 0 : -1;
}

void upkeep_process_begins(struct collector *collector, struct recorded_process *process,
                           struct process_upkeep *upkeep) {
  process->upkeep = upkeep;
  if (!upkeep || !has_budget(collector))
    return;
  upkeep->program_ns = proc_cpu_ns(process->pid);
  upkeep->bursts = !collector->upkeep.between;
  process->pause_word = "paused, or between bursts";
  process_banks_pause(process, PAUSED_BY_BUDGET, collector->upkeep.between);
}

static void add_time(struct recorded_process *process, uint64_t ns) {
  process->upkeep->ns += ns;
  process->upkeep->recorded_ns += process_banks_paused(process) ? 0 : ns;
}

static void switch_bursts(struct collector *collector, bool between) {
  collector->upkeep.between = between;
  collector->outcome.bursts += !between;
  for (uint32_t i = 0; i < collector->processes.count; i++) {
    struct recorded_process *process = collector->processes.at[i];
    process_banks_pause(process, PAUSED_BY_BUDGET, between);
    process->upkeep->bursts += !between;
    if (!between)
      process->sampler.next_ns = 0;
  }
  collector_advance_ticks(collector);
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
  uint64_t recorder_ns = os_process_cpu_ns();
  use.recorder_ns = recorder_ns - collector->upkeep.recorder_ns;
  collector->upkeep.recorder_ns = recorder_ns;
  if (now_ns - collector->origin.ns < collector->settings->budget_after_ns)
    return;
  collector->upkeep.idle = use.program_ns == 0;
  bool between = !budget_step(&collector->upkeep.budget, &use);
  if (between != collector->upkeep.between)
    switch_bursts(collector, between);
}

static void complain_once(struct process_upkeep *upkeep, const struct error *error) {
  if (!upkeep->complained)
    report_error(error);
  upkeep->complained = true;
}

/* Surplus files are deleted only when the newest file exists and its predecessor is complete. */
static void trim(struct collector *collector, struct process_upkeep *upkeep) {
  struct error error = {0};
  uint32_t oldest = upkeep->files.oldest;
  uint64_t bytes = upkeep->files.deleted_bytes;
  if (file_set_trim(&upkeep->files, collector->settings->keep, &error) != 0)
    complain_once(upkeep, &error);
  collector->outcome.files_deleted += upkeep->files.oldest - oldest;
  bytes = upkeep->files.deleted_bytes - bytes;
  collector->closed_bytes -= bytes < collector->closed_bytes ? bytes : collector->closed_bytes;
}

static uint32_t oldest_kept(const struct collector *collector, const struct file_set *files, uint32_t number) {
  uint32_t keep = collector->settings->keep;
  return number - files->first > keep ? number - keep : files->first;
}

static void advance_ticks(void *context) {
  collector_advance_ticks(context);
}

/* Begins the next file at one stamp for all threads, after which the tick is advanced, as for the end of a recording
   (collector.c). */
static void rotate(struct collector *collector, struct recorded_process *process) {
  struct process_upkeep *upkeep = process->upkeep;
  recorded_process_flush_in_turns(process, advance_ticks, collector);
  if (process->given_up)
    return;
  uint32_t number = upkeep->files.number + 1;
  uint64_t stamp = collector_stamp(collector, process->control);
  control_advance_tick(process->control);
  char path[4096 + 32], before[4096 + 32];
  file_set_path(&upkeep->files, number, path, sizeof path);
  snprintf(before, sizeof before, "%s", process->path);
  struct describe_file file = {
      upkeep->files.id, number, upkeep->files.first, oldest_kept(collector, &upkeep->files, number), stamp, process};
  char *info = describe_file_info(upkeep->info_json, &file);
  struct recording_next next = {path, info, stamp, collector_clock_hz(collector)};
  struct process_totals totals;
  struct error error = {0};
  bool ended = false;
  process_upkeep_note(&collector->upkeep, process);
  if (info && recorded_process_rotate(process, &next, &totals, &ended, &error) == 0)
    upkeep->complained = false;
  free(info);
  if (!ended) {
    complain_once(upkeep, &error);
    upkeep->again_ns = os_monotonic_ns() + ROTATE_AGAIN_NS;
    return;
  }
  upkeep->files.number = number;
  upkeep->ns = upkeep->recorded_ns = 0;
  upkeep->bursts = !collector->upkeep.between;
  collector->closed_bytes += totals.totals.file_bytes;
  struct process_summary summary = {.pid = process->pid,
                                    .parent_pid = process->parent_pid,
                                    .number = process->number,
                                    .name = process->name,
                                    .path = before,
                                    .end = "rotated",
                                    .totals = &totals};
  report_process(&summary, &error);
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
