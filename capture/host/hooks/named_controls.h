/* SPDX-License-Identifier: MIT */
/* Control calls whose option is a name: what a trace has of them (core/trace/control_names.def).

   Job: option and value of a call that has succeeded. Not its job: hooks (control_calls.c). Async-signal-safe. */
#pragma once

#include "capture/host/producer.h"
#include "core/trace/control_names.h"

/* Returns whether that call of mallctl changed something, or may have; then what the trace has of it. */
bool named_mallctl(uint64_t option, const struct mallctl_passed *passed, struct hook_sizes *sizes);

/* The option of a mib; 0: another than the table's. name: that of the jemalloc's mallctlnametomib; code: the function
   itself, NULL: it is looked up by the name. */
uint64_t named_of_mib(const char *name, const void *code, const size_t *mib, size_t count);
