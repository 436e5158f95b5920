/* SPDX-License-Identifier: MIT */
#include "replay/passes/bare.h"

#include "core/system/pmu_json.h"
#include "replay/engine/loop.h"
#include "replay/parent/run.h"

struct bare_figures {
  struct pmu_count pmu[PMU_EVENTS];
};

static const struct pass pass_bare;
static struct pmu counters;

static void first_op(void) {
  pmu_open(&counters, 0, ~0u, PMU_NOW);
}

static void last_op(void) {
  pmu_read(&counters, ((struct bare_figures *)engine.figures)->pmu);
}

static const struct loop_hooks hooks = {.call = NULL}; /* nothing at any op */
PASS_LOOPS(bare, hooks, hooks)
PASS_LOOP(bare_alone, hooks, LOOP_ALONE)

static json_t *counters_per_op(const struct run *run) {
  const struct bare_figures *figures = run->figures;
  json_t *values = json_object();
  for (int event = 0; event < PMU_EVENTS && run->result->ops > 0; event++) {
    if (figures->pmu[event].error == 0)
      json_object_set_new(values, pmu_names[event],
                          json_real((double)figures->pmu[event].value / (double)run->result->ops));
  }
  return values;
}

static void report(json_t *into, const struct run *run) {
  pmu_report(into, ((const struct bare_figures *)run->figures)->pmu);
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
