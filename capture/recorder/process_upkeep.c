/* SPDX-License-Identifier: MIT */
#include "capture/recorder/process_upkeep.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
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

/* The highest number of an existing file; 0: none. */
static uint32_t highest(const char *base) {
  char folder[4096];
  const char *slash = strrchr(base, '/'), *name = slash ? slash + 1 : base;
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - base) : 1, slash ? base : ".");
  DIR *directory = opendir(folder);
  uint32_t found = 0;
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    uint32_t number = number_in(entry->d_name, name);
    found = number > found ? number : found;
  }
  if (directory)
    closedir(directory);
  return found;
}

void file_set_begin(struct file_set *set, const char *path) {
  snprintf(set->base, sizeof set->base, "%s", path);
  size_t length = strlen(set->base);
  if (length > 5 && strcmp(set->base + length - 5, ".tape") == 0)
    set->base[length - 5] = '\0';
  if (getrandom(&set->id, sizeof set->id, 0) != sizeof set->id)
    set->id = (uint64_t)getpid();
  set->first = set->oldest = set->number = highest(set->base) + 1;
}

void file_set_path(const struct file_set *set, uint32_t number, char *path, size_t bytes) {
  snprintf(path, bytes, "%s.%04u.tape", set->base, number);
}

int file_set_trim(struct file_set *set, uint32_t keep, struct error *error) {
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

uint64_t process_upkeep_cpu_ns(int pid) {
  clockid_t clock;
  struct timespec now;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
    return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void process_upkeep_add_use(struct recorded_process *process, struct budget_use *use) {
  struct process_upkeep *upkeep = process->upkeep;
  uint64_t skipped, recorded = recorded_process_calls(process, &skipped);
  uint64_t program_ns = process_upkeep_cpu_ns(process->pid);
  if (program_ns > upkeep->program_ns) {
    use->program_ns += program_ns - upkeep->program_ns;
    upkeep->program_ns = program_ns;
  }
  use->recorded += recorded > upkeep->recorded ? recorded - upkeep->recorded : 0;
  use->skipped += skipped > upkeep->skipped ? skipped - upkeep->skipped : 0;
  upkeep->recorded = recorded;
  upkeep->skipped = skipped;
}

void process_upkeep_note(const struct upkeep *all, struct recorded_process *process) {
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
