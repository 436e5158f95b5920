/* SPDX-License-Identifier: MIT */
/* The witness: the counts of the check of a history (convert/history/history.h fills it in, a generated workload has
   its own); the verdict on it, and the witness in JSON and in words, as `check` prints it. Its functions are in
   workload_check.c. */
#pragma once

#include "core/trace/event.h"
#include "core/workload/control_counts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The figures that `check --json` prints. */
struct witness {
  uint64_t events;
  uint64_t calls[CALL_LIMIT];
  uint64_t ops; /* ops passed on: events, less the failed and unplaceable ones, plus one free per overlapping acquire */
  uint64_t failed_calls;
  uint64_t unseen_frees;         /* release of an address never seen live, as far as remembered (see double_frees) */
  uint64_t double_frees;         /* release of an address freed recently: the last release of its entry in a table of
                                    2^16 */
  uint64_t unseen_touches;       /* touch (or failed realloc) of an address that is not live */
  uint64_t overlapping_acquires; /* acquire of a live address: the object there must have been released unseen */
  uint64_t overlapping_ranges;   /* acquire of bytes inside another live object; only counted where requested */
  uint64_t inversions_repaired;  /* steps placed after a step with a later stamp, because that made them possible */
  uint64_t max_inversion_depth;  /* most steps placed while one of those steps waited */
  uint64_t live_at_end, live_bytes_at_end;
  uint64_t untold_bytes_at_end; /* of these, of large objects of a killed program, which had no time to tell how much of
                                   them was resident */
  uint64_t peak_live_bytes, peak_live_os_page_bytes, peak_live_objects;
  uint64_t objects_at_peak;   /* live when live bytes were first at their peak: peak_live_objects has its own time */
  uint64_t peak_position;     /* op after which live bytes were first at their peak */
  uint64_t arguments_changed; /* of a workload: ops whose recorded alignment, count or stated size it can't have */
  struct control_counts controls;
  uint64_t dropped;
  uint64_t in_flight; /* calls under way at the trace's end: a resize among them has released its object without an
                         event */
  uint32_t threads;
  bool truncated;
  bool lacks_in_flight; /* the trace reports that one call of each thread, under way at the trace's beginning, may be
                           missing */
  bool lacks_start;     /* the trace reports that objects from before its beginning may be freed in it */
  bool lacks_calls;     /* the trace reports calls missing throughout: objects may be acquired and released unseen */
  bool ranges_checked;
  bool ranges_ordered; /* the order is also valid between addresses; ownership tags order only the steps at one
                          address */
};

/* Is it legal, or explained by events that the trace reports missing? */
bool witness_ok(const struct witness *witness);

/* A new reference; keys as in docs/methods/CHECK.md. */
json_t *witness_json(const struct witness *witness);

/* A few lines for people. */
void witness_print(const struct witness *witness, FILE *out);
