/* SPDX-License-Identifier: MIT */
/* What a process has set its allocator up with by calls: for the next file of its recording, and for its fork children.
 */
#pragma once

#include "core/base/vector.h"
#include "core/trace/event.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct setting_made {
  uint64_t option, value;
  uint8_t call; /* of calls.def */
};

struct settings_made {
  VECTOR(struct setting_made) list;
  bool unknown; /* others may have been made that were not recorded */
};

/* A control call. What sets nothing that stays is not noted, and of calls that set the same option the last. */
void settings_made_note(struct settings_made *settings, const struct trace_event *event);

/* What the parent has set, for its fork child. */
void settings_made_inherit(struct settings_made *settings, const struct settings_made *parents);

/* Adds INFO's `set_before` (core/trace/FORMAT.md), if there is anything. */
void settings_made_describe(const struct settings_made *settings, json_t *info);

void settings_made_free(struct settings_made *settings);
