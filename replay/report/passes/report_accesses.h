/* SPDX-License-Identifier: MIT */
/* The accesses pass as JSON (docs/formats/RESULTS.md). */
#pragma once

#include "replay/parent/access_runs.h"

#include <jansson.h>

/* Adds "accesses", and the processor's counters of the independent run, to a run's object. */
void report_accesses(json_t *into, const struct access_runs *runs);
