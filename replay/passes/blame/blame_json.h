/* SPDX-License-Identifier: MIT */
/* The blame pass as JSON (docs/use/BLAME.md). */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* names: of the origins file; NULL: no file. */
json_t *report_blame(const struct replay_result *result, const struct baseline *baseline, const json_t *names);
