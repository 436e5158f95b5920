/* SPDX-License-Identifier: MIT */
/* Finds the objects that the samples of data accesses of a trace fall in, by call site and by size.

   Job: the object that lives at a sample's address at its time; sums. Not its job: the history (profile.h). A sample is
   not a count of accesses or of misses. Invariants: each sample is counted once, in an object or outside all objects;
   memory is O(samples + live objects that contain some sample's address). An access during an allocator call is in no
   object: in the history a release comes before the call's work, an acquire after it. Not thread-safe. */
#pragma once

#include "core/trace/read/trace_read.h"

#include <jansson.h>

struct sampled_objects;

/* Loads all samples of the trace. *out is NULL if none were recorded. Returns 0, or -1 with error. */
int sampled_objects_open(struct sampled_objects **out, const struct trace_reader *reader, struct error *error);

/* An object begins or ends at that stamp. Call these functions in the order of the history. objects may be NULL. stack:
   the node of its call site. Returns 0, or -1: no memory. */
int sampled_objects_acquire(struct sampled_objects *objects, uint64_t stamp, uint64_t address, uint64_t size_bytes,
                            uint32_t stack);
void sampled_objects_release(struct sampled_objects *objects, uint64_t stamp, uint64_t address);

/* Places the remaining samples. Returns a new JSON object (docs/formats/PROFILE_JSON.md, `access_samples`); NULL: no
   memory. */
json_t *sampled_objects_json(struct sampled_objects *objects);

/* objects may be NULL. */
void sampled_objects_close(struct sampled_objects *objects);
