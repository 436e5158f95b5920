/* SPDX-License-Identifier: MIT */
/* Counts of calls as JSON: by name, of those that were made. */
#pragma once

#include "core/base/json.h"
#include "core/trace/event.h"

static inline json_t *call_counts_json(const uint64_t counts[CALL_LIMIT]) {
  json_t *calls = json_object();
  for (int id = 0; id < CALL_LIMIT; id++)
    if (counts[id])
      json_set_count(calls, call_table[id].name, counts[id]);
  return calls;
}
