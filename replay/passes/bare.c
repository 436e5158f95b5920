/* SPDX-License-Identifier: MIT */
#include "replay/passes/bare.h"

#include "replay/engine/loop.h"
#include "replay/parent/run.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum pmu_event {
  PMU_TASK_CLOCK, /* ns */
  PMU_INSTRUCTIONS,
  PMU_CYCLES,
  PMU_CACHE_REFERENCES,
  PMU_CACHE_MISSES,
  PMU_L1D_MISSES,
  PMU_DTLB_MISSES,
  PMU_BRANCHES,
  PMU_BRANCH_MISSES,
  PMU_EVENTS
};

struct pmu_count {
  int error;    /* errno of opening or reading it; 0: it counted */
  double share; /* of the time in which it counted; 1 if it shared no hardware counter */
  uint64_t value;
};

struct bare_figures {
  struct pmu_count pmu[PMU_EVENTS];
};

#define CACHE_READ_MISSES(cache)                                                                                       \
  (PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct pass pass_bare;

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

static void first_op(void) {
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

static void last_op(void) {
  struct pmu_count *counts = ((struct bare_figures *)engine.figures)->pmu;
  for (int event = 0; event < PMU_EVENTS; event++) {
    counts[event] = (struct pmu_count){.error = errors[event]};
    if (fds[event] < 0)
      continue;
    if (errors[event] == 0)
      counts[event] = read_count(fds[event]);
    close(fds[event]);
  }
}

static const struct loop_hooks hooks = {.call = NULL}; /* nothing at any op */
PASS_LOOPS(bare, hooks, hooks)
PASS_LOOP(bare_alone, hooks, LOOP_ALONE)

static const char *why(int error) {
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

static void add_counters(json_t *into, const struct bare_figures *figures) {
  json_t *values = json_object(), *shares = json_object();
  int error = 0;
  for (int event = 0; event < PMU_EVENTS; event++) {
    const struct pmu_count *count = &figures->pmu[event];
    if (count->error != 0) {
      error = error ? error : count->error;
      continue;
    }
    json_set_count(values, events[event].name, count->value);
    if (count->share < 1)
      json_object_set_new(shares, events[event].name, json_real(count->share));
  }
  json_object_set_new(into, "counters", values);
  if (json_object_size(shares) > 0)
    json_object_set(into, "counters_share", shares);
  json_decref(shares);
  if (error != 0)
    json_object_set_new(into, "counters_missing_because", json_string(why(error)));
}

static json_t *counters_per_op(const struct run *run) {
  const struct bare_figures *figures = run->figures;
  json_t *values = json_object();
  for (int event = 0; event < PMU_EVENTS && run->result->ops > 0; event++) {
    if (figures->pmu[event].error == 0)
      json_object_set_new(values, events[event].name,
                          json_real((double)figures->pmu[event].value / (double)run->result->ops));
  }
  return values;
}

static void report(json_t *into, const struct run *run) {
  add_counters(into, run->figures);
  /* Of whole streams, without waits and counter reads. */
  json_set_count(into, "cycles_total", (uint64_t)((double)run->result->cpu_ns * run_cycles_hz() / 1e9));
  json_set_count(into, "cpu_ns", run->result->cpu_ns);
  if (run->engine_wall_ns_per_op >= 0)
    json_object_set_new(into, "engine_wall_ns_per_op", json_real(run->engine_wall_ns_per_op));
  if (run->engine_counters)
    json_object_set(into, "engine_counters_per_op", run->engine_counters);
}

enum { CALIBRATED_OPS = 4 << 20 };

/* Orders by turns have no prefix at which to stop, and waits are left out anyway, so the window order is used instead;
   for the paced order as well. */
static int measure_engine(struct run *into, const struct run_spec *spec, struct error *error) {
  struct run_spec only = run_spec_without_allocator(spec);
  only.pass = &pass_bare;
  only.order = spec->order == ORDER_CAUSAL ? ORDER_CAUSAL : ORDER_WINDOW;
  only.null_allocator = true;
  only.op_limit = CALIBRATED_OPS;
  struct run run;
  int status = run_open(&run, &only, error);
  if (status == 0)
    status = run_process(&run, &only, NULL, error);
  if (status == 0) {
    into->engine_counters = counters_per_op(&run);
    double ops = run.result->ops ? (double)run.result->ops : 1;
    into->engine_ns_per_op = (double)run.result->cpu_ns / ops;
    into->engine_wall_ns_per_op = (double)run.result->wall_ns / ops;
  }
  run_free(&run);
  return status;
}

int bare_launch_with_engine_cost(struct run *run, const struct run_spec *spec, struct error *error) {
  if (spec->engine_cycles_per_op < 0 && measure_engine(run, spec, error) != 0)
    return -1;
  return run_process(run, spec, NULL, error);
}

static uint64_t counted(const struct run *run) {
  return run->result->cpu_ns;
}

static const struct pass pass_bare = {
    .turn = 40,
    .name = "bare",
    .summary = "CPU time of whole streams of calls, without a reading at each; the processor's counters",
    .order = ORDER_WINDOW,
    .repeats = REPEATED,
    .by_default = true,
    .takes = TAKES_WARM,
    .loops = {bare_freely, bare_by_turns, bare_alone},
    .figures_bytes = sizeof(struct bare_figures),
    .first_op = first_op,
    .last_op = last_op,
    .launch = bare_launch_with_engine_cost,
    .report = report,
    .counts = "nanoseconds of CPU time",
    .counted = counted,
};
REGISTER_PASS(pass_bare);
