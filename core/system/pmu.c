/* SPDX-License-Identifier: MIT */
#include "core/system/pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_READ_MISSES(cache)                                                                                       \
  (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct {
  uint32_t type;
  uint64_t config;
} events[PMU_EVENTS] = {
    [PMU_TASK_CLOCK] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    [PMU_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    [PMU_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [PMU_CACHE_REFERENCES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    [PMU_CACHE_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    [PMU_L1D_MISSES] = {PERF_TYPE_HW_CACHE, CACHE_READ_MISSES(L1D)},
    [PMU_DTLB_MISSES] = {PERF_TYPE_HW_CACHE, CACHE_READ_MISSES(DTLB)},
    [PMU_BRANCHES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    [PMU_BRANCH_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
};

const char *const pmu_names[PMU_EVENTS] = {
    [PMU_TASK_CLOCK] = "task_clock_ns",     [PMU_INSTRUCTIONS] = "instructions",
    [PMU_CYCLES] = "core_cycles",           [PMU_CACHE_REFERENCES] = "cache_references",
    [PMU_CACHE_MISSES] = "cache_misses",    [PMU_L1D_MISSES] = "l1d_read_misses",
    [PMU_DTLB_MISSES] = "dtlb_read_misses", [PMU_BRANCHES] = "branches",
    [PMU_BRANCH_MISSES] = "branch_misses",
};

void pmu_open(struct pmu *pmu, pid_t process, unsigned wanted, enum pmu_start start) {
  for (int event = 0; event < PMU_EVENTS; event++) {
    pmu->fds[event] = -1;
    pmu->errors[event] = PMU_NOT_WANTED;
    if (!(wanted & 1u << event))
      continue;
    struct perf_event_attr attr = {.type = events[event].type,
                                   .size = sizeof attr,
                                   .config = events[event].config,
                                   .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                                   .disabled = 1,
                                   .enable_on_exec = start == PMU_AT_EXEC,
                                   .inherit = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    pmu->fds[event] = (int)syscall(SYS_perf_event_open, &attr, process, -1, -1, PERF_FLAG_FD_CLOEXEC);
    pmu->errors[event] = pmu->fds[event] < 0 ? errno : 0;
  }
  for (int event = 0; event < PMU_EVENTS && start == PMU_NOW; event++) {
    if (pmu->fds[event] >= 0 && ioctl(pmu->fds[event], PERF_EVENT_IOC_ENABLE, 0) != 0)
      pmu->errors[event] = errno;
  }
}

static struct pmu_count read_count(int fd) {
  struct {
    uint64_t value, enabled_ns, running_ns;
  } got;
  ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
  if (read(fd, &got, sizeof got) != sizeof got)
    return (struct pmu_count){.error = errno};
  if (got.running_ns == 0)
    return (struct pmu_count){.error = EBUSY}; /* other users held the counters all the time */
  double share = (double)got.running_ns / (double)got.enabled_ns;
  return (struct pmu_count){0, share, (uint64_t)((double)got.value / share)};
}

void pmu_read(struct pmu *pmu, struct pmu_count counts[PMU_EVENTS]) {
  for (int event = 0; event < PMU_EVENTS; event++) {
    counts[event] = (struct pmu_count){.error = pmu->errors[event]};
    if (pmu->fds[event] < 0)
      continue;
    if (pmu->errors[event] == 0)
      counts[event] = read_count(pmu->fds[event]);
    close(pmu->fds[event]);
    pmu->fds[event] = -1;
  }
}

const char *pmu_why(int error) {
  switch (error) {
  case ENOENT:
  case ENODEV:
  case EOPNOTSUPP:
    return "this machine shows no PMU";
  case EACCES:
  case EPERM:
    return "perf_event_open is not permitted (see /proc/sys/kernel/perf_event_paranoid)";
  case ENOSYS:
    return "the kernel has no perf_event_open";
  default:
    return strerror(error);
  }
}
