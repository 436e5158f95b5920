/* SPDX-License-Identifier: MIT */
#include "capture/recorder/process_upkeep.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
