/* SPDX-License-Identifier: MIT */
/* The engine's environment: built, not inherited, so that its allocator has the spec's settings and no others.

   Job: what every program needs of this process's environment, the spec's settings, its preloads, the padding. A
   recorder of this process goes on recording the engine; nothing else that is preloaded here is preloaded there. */
#pragma once

#include "core/base/text.h"
#include "replay/engine/run_spec.h"

/* In the child: replaces environ. After it only settings that are as long in each run may be added, as the environment
   is above the stack, and a longer one shifts that. Returns 0, or -1: no memory, or too many preloads. */
int environment_build(const struct run_spec *spec);

/* Returns how many libraries the engine preloads in front of the spec's: those of the recorder of this process. */
unsigned environment_recorders(void);

/* Writes the names of what selects or sets an allocator here, and the engine does not get; "": nothing. */
void environment_left_out(struct text_line *names);
