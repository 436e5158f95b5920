/* SPDX-License-Identifier: MIT */
/* Proves a workload legal (WORKLOAD.md, legality), walking all streams once in the order of the schedule.

   Memory is O(slots + threads + pairs of threads that wait for each other). Not thread-safe. */
#pragma once

#include "core/workload/workload_read.h"

#include <jansson.h>
#include <stdio.h>

struct workload_proof {
  uint64_t ops, words, waits, starts;
  uint64_t live_at_end;
  uint64_t peak_live_bytes, peak_live_objects;
  uint64_t objects_at_peak; /* live when live bytes were first at their peak */
  uint32_t threads, slots;
};

/* Returns 0, or -1 with the first error and its place. */
int workload_check(const struct workload *workload, struct workload_proof *proof, struct error *error);

/* {"ok": true, "events": ...}: only a legal workload has a proof. */
json_t *workload_proof_json(const struct workload_proof *proof);
void workload_proof_print(const struct workload_proof *proof, FILE *out);
