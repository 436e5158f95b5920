/* SPDX-License-Identifier: MIT */
/* The positions at which the blame pass attributes (--at): resolves names. */
#pragma once

#include "core/base/error.h"
#include "core/workload/workload.h"
#include "replay/passes/blame/blame_figures.h"

#include <jansson.h>
#include <stdbool.h>

/* Returns whether the text is a number, a name, or mark=TEXT. */
bool blame_place_is_legal(const char *text);

/* The arguments of --at, all legal. path: the workload's, for errors. */
struct blame_places {
  const char *const *texts;
  unsigned count;
  const char *path;
};

/* Fills in the requested positions of setup; the end and the peak are always included. marks: of the origins file;
   NULL: no file. Returns 0, or -1 with error: a position beyond the end, an unknown mark. */
int blame_places_resolve(struct blame_setup *setup, const struct blame_places *places,
                         const struct workload_header *workload, const json_t *marks, struct error *error);
