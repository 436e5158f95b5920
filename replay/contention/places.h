/* SPDX-License-Identifier: MIT */
/* Where the locks lie on which threads waited.

   Job: which files are loaded at which addresses, and which of the locks are glibc's arenas: these have no symbol where
   they were mapped, and none where the C library was stripped. Not its job: symbols (replay/report/passes/elf_names.h),
   which take files and memory. No allocation. */
#pragma once

#include "replay/state/contention_figures.h"

/* Fills in objects and arenas. When no thread waits any more. */
void places_find(struct contention *contention);
