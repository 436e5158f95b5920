/* SPDX-License-Identifier: MIT */
/* The memory map as JSON: {"region_bytes", "positions", "encoding": "zlib+base64", "columns", "residency", "cells",
   "bytes_lost", "resident_bytes_lost"}. residency "none": the kernel reports none, and resident_bytes means nothing. */
#ifndef REPLAY_REPORT_PASSES_REPORT_MAP_H
#define REPLAY_REPORT_PASSES_REPORT_MAP_H

#include "replay/state/result.h"

#include <jansson.h>

/* A new object, the caller's; NULL: no memory. */
json_t *report_map(const struct replay_result *result);

#endif
