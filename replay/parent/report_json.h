/* SPDX-License-Identifier: MIT */
/* Shared by the files that turn a run into JSON. */
#pragma once

#include "core/base/json.h"

/* Allocators may give back memory that the engine had before them; less than the baseline counts as 0. */
static inline uint64_t above(uint64_t value, uint64_t baseline) {
  return value > baseline ? value - baseline : 0;
}
