/* SPDX-License-Identifier: MIT */
/* Where the blame pass was asked to look (--at): names to positions. */
#pragma once

#include "core/base/error.h"
#include "core/workload/workload.h"
#include "replay/state/blame_figures.h"

#include <jansson.h>
#include <stdbool.h>

/* Is it a number, a name, or mark=TEXT? */
bool blame_place_is_legal(const char *text);

/* Of legal texts. path: the workload's, for errors. */
struct blame_places {
  const char *const *texts;
  unsigned count;
  const char *path;
};

/* Fills in what setup is asked for; the end and the peak are always there. marks: the origins file's, NULL: there is
   none. Returns 0, or -1 with error: a position beyond the end, a mark that is not there. */
int blame_places_resolve(struct blame_setup *setup, const struct blame_places *places,
                         const struct workload_header *workload, const json_t *marks, struct error *error);
