/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/proc_entries.h"

#include "core/base/os.h"
#include "core/system/process.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void sampler_open(struct sampler *sampler, int pid) {
  *sampler = (struct sampler){.opened_ns = os_monotonic_ns(),
                              .pid = pid,
                              .status_fd = proc_open(pid, "status"),
                              .stat_fd = proc_open(pid, "stat"),
                              .quota = proc_quota_open(pid)};
}

void sampler_close(struct sampler *sampler) {
  os_close(sampler->status_fd);
  os_close(sampler->stat_fd);
  os_close(sampler->quota.stat_fd);
  sampler->status_fd = sampler->stat_fd = sampler->quota.stat_fd = -1;
}

/* The value of a line in KiB, in bytes. */
static uint64_t status_bytes(const char *text, const char *key) {
  uint64_t kib = proc_status_number(text, key, TRACE_SAMPLE_MISSING);
  return kib == TRACE_SAMPLE_MISSING ? kib : kib * 1024;
}

/* Kernels before 5.9 don't count them. */
static void note_filters(struct sampler *sampler, const char *text) {
  uint32_t filters = (uint32_t)proc_filters(text);
  if (!sampler->begun)
    sampler->filters_before = filters;
  sampler->begun = true;
  sampler->filters = filters - sampler->filters_before;
}

/* The stack begins at a random address in each image. A process that gains rights by executing a program hides it;
   without rights of its own it can't change its user in another way. */
static void note_image(struct sampler *sampler, const char *status, uint64_t stack) {
  const char *line = strstr(status, "\nUid:");
  unsigned long owner = 0;
  if (!line || sscanf(line + 5, "%*u %lu", &owner) != 1)
    return;
  if (!sampler->stack) {
    sampler->stack = stack;
    sampler->owner = owner;
  } else if (stack ? stack != sampler->stack : geteuid() != 0 && owner != sampler->owner) {
    sampler->executed = true;
  }
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

/* To the ns, where stat counts ticks; both in its proportion. */
static void take_cpu_time(const struct sampler *sampler, const struct proc_stat *stat, struct trace_sample *sample) {
  uint64_t ticks_ns = stat->user_ns + stat->system_ns, cpu_ns = proc_cpu_ns(sampler->pid);
  if (cpu_ns < ticks_ns) /* the process is gone */
    cpu_ns = ticks_ns;
  double user = ticks_ns ? (double)stat->user_ns / (double)ticks_ns : 1;
  sample->user_ns = (uint64_t)((double)cpu_ns * user);
  sample->system_ns = cpu_ns - sample->user_ns;
}

static bool read_sample(struct sampler *sampler, struct trace_sample *sample) {
  char text[4096];
  memset(sample, 0xff, sizeof *sample);
  if (!proc_read(sampler->status_fd, text, sizeof text) || !strstr(text, "\nRssAnon:"))
    return false; /* a zombie has no memory lines */
  note_filters(sampler, text);
  sample->rss_anon_bytes = status_bytes(text, "\nRssAnon:");
  sample->rss_file_bytes = status_bytes(text, "\nRssFile:");
  sample->rss_shmem_bytes = status_bytes(text, "\nRssShmem:");
  sample->vm_size_bytes = status_bytes(text, "\nVmSize:");
  sample->vm_hwm_bytes = status_bytes(text, "\nVmHWM:");
  struct proc_stat stat;
  if (!proc_stat_read(sampler->stat_fd, &stat))
    return true;
  note_image(sampler, text, stat.stack);
  sample->minor_faults = stat.minor_faults;
  sample->major_faults = stat.major_faults;
  take_cpu_time(sampler, &stat, sample);
  if (proc_queue_read(sampler->pid, &sampler->queue)) {
    sample->queued_ns = sampler->queue.queued_ns;
    sample->active_threads = sampler->queue.active;
  }
  sample->throttled_ns = proc_quota_throttled_ns(&sampler->quota, TRACE_SAMPLE_MISSING);
  return !sampler->executed;
}

bool sampler_read(struct sampler *sampler, struct trace_sample *sample) {
  enum { READINGS = 4, APART_NS = 500000 };
  uint64_t begin_ns = os_thread_cpu_ns(), apart_ns = UINT64_MAX;
  bool got = true;
  for (int reading = 0; got && apart_ns > APART_NS && reading < READINGS; reading++) {
    uint64_t cpu_ns = os_thread_cpu_ns(), from_ns = os_monotonic_ns();
    sampler->read_stamp = os_stamp();
    got = read_sample(sampler, sample);
    apart_ns = os_monotonic_ns() - from_ns;
    cpu_ns = os_thread_cpu_ns() - cpu_ns;
    apart_ns = apart_ns > cpu_ns ? apart_ns - cpu_ns : 0;
  }
  sampler->cost_ns = (3 * sampler->cost_ns + os_thread_cpu_ns() - begin_ns) / 4;
  return got;
}

/* linux/pidfd.h of 6.15 and later; Debian's headers are older. An older kernel fails the call or leaves the bit out. */
struct pid_info {
  uint64_t mask, cgroup;
  uint32_t pid, tgid, ppid, user_and_group_ids[8];
  int32_t exit_code;
};
enum { PID_INFO_EXIT = 1 << 3 };
#define PID_GET_INFO _IOWR(0xff, 11, struct pid_info)
_Static_assert(sizeof(struct pid_info) == 64, "the size is part of the call's number");

struct process_end process_end_read(int pid_fd, int stat_fd) {
  struct process_end end = {0};
  struct proc_stat stat;
  if (proc_stat_read(stat_fd, &stat) && (stat.state == 'Z' || stat.state == 'X')) {
    end = (struct process_end){.status_known = stat.exit_status != 0,
                               .status = stat.exit_status,
                               .usage_known = true,
                               .usage = {.minor_faults = stat.minor_faults,
                                         .major_faults = stat.major_faults,
                                         .user_ns = stat.user_ns,
                                         .system_ns = stat.system_ns},
                               .reaped_children = stat.child_minor_faults || stat.child_major_faults};
  }
  struct pid_info info = {.mask = PID_INFO_EXIT};
  if (!end.status_known && pid_fd >= 0 && ioctl(pid_fd, PID_GET_INFO, &info) == 0 && (info.mask & PID_INFO_EXIT)) {
    end.status_known = true;
    end.status = info.exit_code;
  }
  return end;
}

enum { FIRST_WAIT_NS = 1000000 };
#define LAST_WAIT_NS 10000000000u

bool thread_name_refresh(struct thread_name *name, int pid, uint32_t tid, uint64_t now_ns) {
  if (now_ns < name->due_ns)
    return false;
  name->wait_ns = name->wait_ns ? 2 * name->wait_ns : FIRST_WAIT_NS;
  if (name->wait_ns > LAST_WAIT_NS)
    name->wait_ns = LAST_WAIT_NS;
  name->due_ns = now_ns + name->wait_ns;
  char file[32], text[sizeof name->text];
  snprintf(file, sizeof file, "task/%u/comm", tid);
  if (!proc_read_file(pid, file, text, sizeof text))
    return false;
  text[strcspn(text, "\n")] = '\0';
  if (strcmp(text, name->text) == 0)
    return false;
  memcpy(name->text, text, sizeof text);
  return true;
}
