/* SPDX-License-Identifier: MIT */
/* The time pass's figures as JSON: calls by kind and size class, the slowest calls, the cost of timing, what was left
   out. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Adds the figures to the run's object. engine_cycles_per_op < 0: not measured. */
void report_time(json_t *into, const struct run *run, const struct run_request *request, double engine_cycles_per_op);
