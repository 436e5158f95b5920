/* SPDX-License-Identifier: MIT */
/* Control calls whose option is a name (core/trace/control_names.def), made by its number; and a member function. */
#pragma once

#include <stdint.h>

/* The allocator has the function. */
void named_controls_mallctl(uint64_t option, uint64_t value);
void named_controls_mallctlbymib(uint64_t option, uint64_t value);
void named_controls_set_property(uint64_t option, uint64_t value);

/* MallocExtension::SetMemoryReleaseRate, in millionths. */
void named_controls_set_release_rate(uint64_t millionths);
