/* SPDX-License-Identifier: MIT */
/* The engine on another C library than this process's: a copy of this program that asks for another dynamic linker, and
   where that linker finds its libraries.

   Why a copy: a linker that is started as a program, with the engine as its argument, gives the engine's memory another
   layout; without randomised addresses its brk area begins just below the stack and can't grow. */
#pragma once

#include "core/base/error.h"
#include "replay/engine/run_spec.h"

#include <stdbool.h>

/* Makes the copy, a file in memory. program: this one's path. Returns its descriptor, or -1 with error filled in: the
   file named as linker can't be read, or is none of this processor. */
int loader_copy_program(const char *program, const char *loader, struct error *error);

/* Returns LD_LIBRARY_PATH for the engine: the spec's folders, then `before`, then those that this process's own
   libraries are in, as the linker may have no cache of the system's. A new string, which the caller frees; NULL: no
   memory. */
char *loader_library_path(const struct run_spec *spec, const char *before);

/* Is the library one that is directly in a folder of the spec's? */
bool loader_has_library(const struct run_spec *spec, const char *library);
