/* SPDX-License-Identifier: MIT */
/* LTTng's traces are directories: what formats.h needs to tell one. */
#pragma once

#include <stdbool.h>

/* Is there a file named metadata in the directory, or not too deep below it? */
bool import_lttng_is_trace(const char *path);
