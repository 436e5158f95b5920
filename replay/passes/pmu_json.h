/* SPDX-License-Identifier: MIT */
/* The processor's counters as JSON. */
#pragma once

#include "replay/engine/result.h"

#include <jansson.h>

/* Adds "counters" {name: value}, "counters_share" {name: share} for counters that took turns, and, where some are
   missing, "counters_missing_because". */
void report_pmu(json_t *into, const struct replay_result *result);

/* Returns the same counts per op: a new object, the caller's, without missing counters. */
json_t *report_pmu_per_op(const struct replay_result *result);
