/* SPDX-License-Identifier: MIT */
/* What the files that turn a run into JSON share. */
#pragma once

#include "core/base/json.h"

/* Allocators may give memory back that the engine had before them; less than the baseline is none. */
static inline uint64_t above(uint64_t value, uint64_t baseline) {
  return value > baseline ? value - baseline : 0;
}
