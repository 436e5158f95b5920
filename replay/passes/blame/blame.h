/* SPDX-License-Identifier: MIT */
/* The blame pass: who holds the resident memory, at some positions of the replay (docs/use/BLAME.md).

   Job: when to attribute, and where the rows go; the steps of the parent: which positions are requested, names of
   origins, JSON. Invariants: the recorded order, so that one thread samples at a time and positions are those of the
   recording; at requested positions and at the peak all groups are kept, at other positions those of at least
   FOLD_SHARE of resident memory; what the pass faults in is not counted as the allocator's. */
#pragma once

#include "core/workload/workload.h"
#include "replay/parent/run.h"
#include "replay/passes/blame/attribution.h"

/* The origins file in the parent: checked completely, with its JSON as an object. */
struct origin_names {
  int fd;       /* -1: no origins file */
  json_t *json; /* sites, functions and marks are arrays with as many entries as the tables */
};

/* Opens the origins file, if the spec has one, and refuses a file that is damaged or another workload's, with its name
   and the offset; fills in the requested positions: the end and the peak are always included. Returns 0, or -1 with
   error: also a position beyond the end, an unknown mark.
   The caller owns both fields of names in either case. */
int blame_request_resolve(struct blame_request *request, struct origin_names *names, const struct run_spec *spec,
                          const struct workload_header *workload, struct error *error);

/* Adds "blame" (docs/formats/ORIGINS.md) to the run's object. names: of the origins file; NULL: no file. */
void blame_report(json_t *into, const struct run *run, const json_t *names);
