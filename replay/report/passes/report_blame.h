/* SPDX-License-Identifier: MIT */
/* The blame pass as JSON (docs/use/BLAME.md). */
#ifndef REPLAY_REPORT_PASSES_REPORT_BLAME_H
#define REPLAY_REPORT_PASSES_REPORT_BLAME_H

#include "replay/parent/run.h"

#include <jansson.h>

/* names: of the origins file; NULL: there is none. */
json_t *report_blame(const struct replay_result *result, const struct baseline *baseline, const json_t *names);

#endif
