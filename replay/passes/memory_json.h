/* SPDX-License-Identifier: MIT */
/* The memory pass's figures as JSON: time line, peaks, system calls, what is held at the end, memory map. */
#pragma once

#include "replay/parent/run.h"

#include <jansson.h>

/* Adds the figures to the run's object. */
void report_memory(json_t *into, const struct run *run, const struct baseline *baseline);
