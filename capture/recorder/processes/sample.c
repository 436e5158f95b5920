/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/sample.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void sampler_open(struct sampler *sampler, int pid) {
  *sampler = (struct sampler){
      .opened_ns = os_monotonic_ns(), .status_fd = proc_open(pid, "status"), .stat_fd = proc_open(pid, "stat")};
}

void sampler_close(struct sampler *sampler) {
  if (sampler->status_fd >= 0)
    close(sampler->status_fd);
  if (sampler->stat_fd >= 0)
    close(sampler->stat_fd);
  sampler->status_fd = sampler->stat_fd = -1;
}

/* The value of a line in KiB, in bytes. */
static uint64_t status_bytes(const char *text, const char *key) {
  uint64_t kib = proc_status_number(text, key, TRACE_SAMPLE_MISSING);
  return kib == TRACE_SAMPLE_MISSING ? kib : kib * 1024;
}

static void look_at_sandbox(struct sampler *sampler, const char *text) {
  unsigned long mode = proc_status_number(text, "\nSeccomp:", 0);
  unsigned long filters = proc_status_number(text, "\nSeccomp_filters:", 0);
  if (!sampler->begun) {
    sampler->seccomp_mode = mode;
    sampler->seccomp_filters = filters;
    sampler->begun = true;
  }
  if (mode != sampler->seccomp_mode || filters != sampler->seccomp_filters)
    sampler->sandboxed = true;
}

static uint64_t processor_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

bool sampler_is_due(const struct sampler *sampler, uint64_t now_ns) {
  return now_ns >= sampler->next_ns;
}

/* Short programs have their peak within milliseconds; long ones must be sampled over all their length. */
void sampler_plan(struct sampler *sampler, uint64_t now_ns, uint64_t base_ns, uint32_t processes) {
  bool young = now_ns - sampler->opened_ns < 1000000000u;
  uint64_t interval_ns = young ? base_ns / 10 : base_ns;
  uint64_t affordable_ns = sampler->cost_ns * (young ? 20 : 100) * processes;
  sampler->next_ns = now_ns + (interval_ns > affordable_ns ? interval_ns : affordable_ns);
}

static bool read_sample(struct sampler *sampler, struct trace_sample *sample) {
  char text[4096];
  memset(sample, 0xff, sizeof *sample);
  if (!proc_read(sampler->status_fd, text, sizeof text) || !strstr(text, "\nRssAnon:"))
    return false; /* a zombie has no memory lines */
  look_at_sandbox(sampler, text);
  sample->rss_anon_bytes = status_bytes(text, "\nRssAnon:");
  sample->rss_file_bytes = status_bytes(text, "\nRssFile:");
  sample->rss_shmem_bytes = status_bytes(text, "\nRssShmem:");
  sample->vm_size_bytes = status_bytes(text, "\nVmSize:");
  sample->vm_hwm_bytes = status_bytes(text, "\nVmHWM:");
  /* In stat, after the program's name in parentheses (which may hold anything) come fields 3 and following. */
  const char *after;
  if (!proc_read(sampler->stat_fd, text, sizeof text) || !(after = strrchr(text, ')')))
    return true;
  unsigned long long minor, major, user, system;
  if (sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu %*u %llu %llu", &minor, &major, &user, &system) ==
      4) {
    uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    sample->minor_faults = minor;
    sample->major_faults = major;
    sample->user_ns = user * tick_ns;
    sample->system_ns = system * tick_ns;
  }
  return true;
}

bool sampler_read(struct sampler *sampler, struct trace_sample *sample) {
  uint64_t begin_ns = processor_ns();
  bool got = read_sample(sampler, sample);
  sampler->cost_ns = (3 * sampler->cost_ns + processor_ns() - begin_ns) / 4;
  return got;
}
