/* SPDX-License-Identifier: MIT */
/* The contention pass as JSON. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Returns the run's "contention" (docs/formats/RESULTS.md): a new object, the caller's. Names of locks are from this
   machine's files. NULL: no memory. */
json_t *report_contention(const struct run *run);
