/* SPDX-License-Identifier: MIT */
/* The contention pass as JSON. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* The run's "contention" (docs/formats/RESULTS.md): a new object, the caller's. The locks are named by files of this
   machine. NULL: no memory. */
json_t *report_contention(const struct run *run);
