/* SPDX-License-Identifier: MIT */
#include "replay/passes/pmu.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CACHE_READ_MISSES(cache)                                                                                       \
  (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct {
  const char *name;
  uint32_t type;
  uint64_t config;
} events[PMU_EVENTS] = {
    [PMU_TASK_CLOCK] = {"task_clock_ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    [PMU_INSTRUCTIONS] = {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    [PMU_CYCLES] = {"core_cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [PMU_CACHE_REFERENCES] = {"cache_references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    [PMU_CACHE_MISSES] = {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    [PMU_L1D_MISSES] = {"l1d_read_misses", PERF_TYPE_HW_CACHE, CACHE_READ_MISSES(L1D)},
    [PMU_DTLB_MISSES] = {"dtlb_read_misses", PERF_TYPE_HW_CACHE, CACHE_READ_MISSES(DTLB)},
    [PMU_BRANCHES] = {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    [PMU_BRANCH_MISSES] = {"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
};

static int fds[PMU_EVENTS];
static int errors[PMU_EVENTS];

const char *pmu_event_name(enum pmu_event event) {
  return events[event].name;
}

void pmu_begin(void) {
  for (int event = 0; event < PMU_EVENTS; event++) {
    struct perf_event_attr wanted = {.type = events[event].type,
                                     .size = sizeof wanted,
                                     .config = events[event].config,
                                     .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
                                     .disabled = 1,
                                     .inherit = 1,
                                     .exclude_kernel = 1,
                                     .exclude_hv = 1};
    fds[event] = (int)syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    errors[event] = fds[event] < 0 ? errno : 0;
  }
  for (int event = 0; event < PMU_EVENTS; event++) {
    if (fds[event] >= 0 && ioctl(fds[event], PERF_EVENT_IOC_ENABLE, 0) != 0)
      errors[event] = errno;
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

void pmu_end(struct pmu_count counts[PMU_EVENTS]) {
  for (int event = 0; event < PMU_EVENTS; event++) {
    counts[event] = (struct pmu_count){.error = errors[event]};
    if (fds[event] < 0)
      continue;
    if (errors[event] == 0)
      counts[event] = read_count(fds[event]);
    close(fds[event]);
  }
}
