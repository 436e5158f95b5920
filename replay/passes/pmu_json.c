/* SPDX-License-Identifier: MIT */
#include "replay/passes/pmu_json.h"

#include "replay/parent/report_json.h"
#include "replay/passes/pmu.h"

#include <errno.h>
#include <string.h>

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

void report_pmu(json_t *into, const struct replay_result *result) {
  json_t *values = json_object(), *shares = json_object();
  int error = 0;
  for (int event = 0; event < PMU_EVENTS; event++) {
    const struct pmu_count *count = &result->pmu[event];
    if (count->error != 0) {
      error = error ? error : count->error;
      continue;
    }
    json_set_count(values, pmu_event_name(event), count->value);
    if (count->share < 1)
      json_object_set_new(shares, pmu_event_name(event), json_real(count->share));
  }
  json_object_set_new(into, "counters", values);
  if (json_object_size(shares) > 0)
    json_object_set(into, "counters_share", shares);
  json_decref(shares);
  if (error != 0)
    json_object_set_new(into, "counters_missing_because", json_string(why(error)));
}

json_t *report_pmu_per_op(const struct replay_result *result) {
  json_t *values = json_object();
  for (int event = 0; event < PMU_EVENTS && result->ops > 0; event++) {
    if (result->pmu[event].error == 0)
      json_object_set_new(values, pmu_event_name(event),
                          json_real((double)result->pmu[event].value / (double)result->ops));
  }
  return values;
}
