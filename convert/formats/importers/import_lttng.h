/* SPDX-License-Identifier: MIT */
/* LTTng's traces are directories: recognises one, for formats.c. */
#pragma once

#include <stdbool.h>

/* Is there a file named metadata in the directory, or a few levels below it? */
bool import_lttng_is_trace(const char *path);
