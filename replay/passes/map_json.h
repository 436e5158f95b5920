/* SPDX-License-Identifier: MIT */
/* The memory map as JSON: {"region_bytes", "positions", "encoding": "zlib+base64", "columns", "residency", "cells",
   "bytes_lost", "resident_bytes_lost"}. residency "none": the kernel does not report it, and resident_bytes is
   meaningless. */
#pragma once

#include "replay/engine/result.h"

#include <jansson.h>

/* Returns a new object, the caller's; NULL: no memory. */
json_t *report_map(const struct replay_result *result);
