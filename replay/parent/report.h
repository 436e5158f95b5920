/* SPDX-License-Identifier: MIT */
/* A run as JSON: one element of the results' "runs".

   Not its job: where the JSON goes. Figures are in cycles of the calibrated counter, bytes and ns; what a pass does not
   measure is absent, never 0. Allocates with malloc (in the parent). */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Returns a new object, the caller's. engine_cycles_per_op < 0: not measured. */
json_t *report_run(const struct run *run, const struct run_request *request, const struct baseline *baseline,
                   double engine_cycles_per_op);
