/* SPDX-License-Identifier: MIT */
/* Makes a trace of a workload's ops: of all or some of its objects, up to a position, on fewer threads. `heaptape
   minimise` makes its candidates with it.

   Objects are numbered from 0 in the order of their births in the total order; a call that is given NULL and acquires
   nothing counts as an object that is born and ends there. Invariants: the trace is a legal history, from which the
   compiler makes the workload again, if all of it is wanted; an object is present with all its ops up to the end, or
   not at all. Addresses are made up. Memory is O(slots + threads). Not thread-safe. */
#pragma once

#include "core/workload/workload_read.h"

#include <stddef.h>
#include <stdint.h>

struct workload_trace_selection {
  const uint8_t *objects; /* by number: 0: is left out; NULL: all stay */
  uint64_t object_count;  /* of the array: must be the number of the workload's objects */
  uint64_t end;           /* position of the first op left out; all later ops are left out, too */
  const uint32_t *joined; /* threads whose ops are made by thread 0 */
  size_t joined_count;
};

struct workload_trace_counts {
  uint64_t objects, events; /* objects: of the workload, up to the end; events: written */
};

/* The workload's ops must be legal (`check`); an illegal op that is noticed is an error. Returns 0, or -1 with error;
   then the file is incomplete. */
int workload_trace_write(const struct workload *workload, const struct workload_trace_selection *wanted,
                         const char *path, struct workload_trace_counts *counts, struct error *error);
