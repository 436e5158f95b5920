/* SPDX-License-Identifier: MIT */
/* What the processor's counters counted, as JSON: "counters", "counters_share" of those that took turns, and why some
   are missing. */
#pragma once

#include "core/base/json.h"
#include "core/system/pmu.h"

static inline void pmu_report(json_t *into, const struct pmu_count counts[PMU_EVENTS]) {
  json_t *values = json_object(), *shares = json_object();
  int error = 0;
  for (int event = 0; event < PMU_EVENTS; event++) {
    const struct pmu_count *count = &counts[event];
    if (count->error != 0) {
      error = error || count->error == PMU_NOT_WANTED ? error : count->error;
      continue;
    }
    json_set_count(values, pmu_names[event], count->value);
    if (count->share < 1)
      json_object_set_new(shares, pmu_names[event], json_real(count->share));
  }
  json_object_set_new(into, "counters", values);
  if (json_object_size(shares) > 0)
    json_object_set(into, "counters_share", shares);
  json_decref(shares);
  if (error != 0)
    json_object_set_new(into, "counters_missing_because", json_string(pmu_why(error)));
}
