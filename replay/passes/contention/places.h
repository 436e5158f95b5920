/* SPDX-License-Identifier: MIT */
/* The places of the locks on which threads waited.

   Job: which files are loaded at which addresses, and which of the locks are glibc's arenas. Arenas that were mapped
   have no symbol, and none has one where the C library was stripped. Not its job: symbols
   (replay/passes/contention/elf_names.h), which need files and memory. No allocation. */
#pragma once

#include "replay/passes/contention/contention_figures.h"

/* Fills in objects and arenas. Call when no thread waits any more. */
void places_find(struct contention *contention);
