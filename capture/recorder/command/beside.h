/* SPDX-License-Identifier: MIT */
/* What a feature records of a program beside its calls, under our Valgrind tool: its options, which it adds to `record`
   (CLI_ADD; their fields are the struct collector_settings), and what depends on them. Registered by being linked. */
#pragma once

#include "capture/recorder/command/settings.h"
#include "core/base/registry.h"
#include "core/system/valgrind.h"

#include <jansson.h>

struct beside_calls {
  const char *(*contradiction)(const struct collector_settings *settings); /* of options; NULL: none */
  json_t *(*info)(const struct collector_settings *settings); /* INFO's `accesses`; NULL: nothing is recorded */
  void (*set_mode)(struct valgrind_command *command, const struct collector_settings *settings);
};

#define REGISTER_BESIDE_CALLS(one) REGISTRY_ADD(beside_calls, beside_calls, entry_##one, &one)
REGISTRY(beside_calls, beside_calls);

/* NULL: there is none. */
static inline const struct beside_calls *beside_calls(void) {
  return REGISTRY_ONLY(beside_calls);
}
