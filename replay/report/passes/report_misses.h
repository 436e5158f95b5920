/* SPDX-License-Identifier: MIT */
/* The misses pass in a result: key "misses". Not its job: simulating (observe/valgrind/). */
#ifndef REPLAY_REPORT_PASSES_REPORT_MISSES_H
#define REPLAY_REPORT_PASSES_REPORT_MISSES_H

#include "replay/parent/run.h"

#include <jansson.h>

void report_misses(json_t *into, const struct run *run);

#endif
