/* SPDX-License-Identifier: MIT */
/* Settings derived from the tunables, which change while the program runs: by mallopt, or as thresholds adapt
   (mapped.h). */
#pragma once

#include "allocators/common/base/basics.h"
#include "allocators/common/tunables.h"

extern size_t fast_max_bytes HIDDEN;   /* largest chunk that goes to a fast bin; 0: none */
extern size_t quick_max_bytes HIDDEN;  /* largest chunk that may go to a tcache or a fast bin */
extern bool dynamic_thresholds HIDDEN; /* neither threshold was set, so they follow the program */

/* Call after the tunables were read. */
void settings_setup(void);
