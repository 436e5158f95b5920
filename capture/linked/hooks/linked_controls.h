/* SPDX-License-Identifier: MIT */
/* Control calls of an allocator in the executable: what a trace has of them.

   Job: option and value, by the meaning of the parameters in the table's entry. Not its job: the hook (linked_hooks.c).
   Async-signal-safe. */
#pragma once

#include "capture/host/hooks/hook_call.h"
#include "capture/wire/linked.h"

#include <stdbool.h>

/* What is passed: the registers for parameters; of LINKED_RATE, the double in place of the first. */
enum { LINKED_GIVEN = 6 };

/* Returns whether that call, which has returned, is to be recorded; then *sizes is set. */
bool linked_control_sizes(const struct linked_function *function, const uint64_t given[LINKED_GIVEN], uint64_t returned,
                          struct hook_sizes *sizes);
