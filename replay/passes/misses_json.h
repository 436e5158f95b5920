/* SPDX-License-Identifier: MIT */
/* The misses pass in a result: key "misses". Not its job: simulating (observe/valgrind/). */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

void report_misses(json_t *into, const struct run *run);
