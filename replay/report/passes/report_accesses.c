/* SPDX-License-Identifier: MIT */
#include "replay/report/passes/report_accesses.h"

#include "replay/report/json/report_json.h"
#include "replay/report/passes/report_pmu.h"

void report_accesses(json_t *into, const struct access_runs *runs) {
  const struct replay_result *own = runs->own_share.result, *result = runs->independent.result;
  const struct replay_accesses *counts = &result->accesses;
  json_object_set_new(
      into, "accesses",
      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "recorded_accesses", json_unsigned(counts->all),
                "object_accesses", json_unsigned(counts->to_objects), "lost_accesses", json_unsigned(counts->lost),
                "outside_accesses", json_unsigned(counts->outside), "filter_bytes",
                json_unsigned(runs->stream.filter_bytes), "own_bytes", json_unsigned(counts->own_bytes), "own_cpu_ns",
                json_unsigned(own->cpu_ns), "independent_cpu_ns", json_unsigned(result->cpu_ns), "dependent_cpu_ns",
                json_unsigned(runs->dependent.result->cpu_ns)));
  report_pmu(into, result);
  json_object_set_new(into, "engine_counters_per_op", report_pmu_per_op(own));
}
