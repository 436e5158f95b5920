/* SPDX-License-Identifier: MIT */
/* A measurement of this machine: every figure is sampled once in each round, so that a disturbance affects all of them
   in the same way.

   Job: the plan, the rounds, the result as JSON. Not its job: using the figures (analysis/heaptape/results/model/). */
#pragma once

#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>

enum { PLAN_MAX = 16 };

struct plan {
  size_t working_set_bytes[PLAN_MAX], working_sets; /* caches: chains over this many bytes */
  size_t os_pages[PLAN_MAX], os_page_sets; /* TLBs: one line in each of this many OS pages, and as many side by side */
  unsigned rounds;
};

/* Measures. Returns the result, to be released with json_decref; or NULL with an error: no memory. */
json_t *measurement_make(const struct plan *plan, struct error *error);

/* Returns only the figures known without measuring: "tlbs". */
json_t *measurement_sizes(void);
