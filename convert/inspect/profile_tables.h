/* SPDX-License-Identifier: MIT */
/* The counts behind a profile, each with the one function that adds to it, and their JSON.

   Not its job: interpreting ops (convert/inspect/profile.c). Invariants: adding never fails; a pair of threads that
   does not fit is counted as left out. */
#pragma once

#include "core/trace/event.h"
#include "core/workload/statistics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
  PROFILE_WINDOWS = 512, /* parts of the recorded progress, each with its rates */
  PROFILE_AGES = 64,     /* buckets of lifetimes, by powers of two */
  PROFILE_CHAINS = 64,   /* longest chain of reallocs that is counted separately */
  PROFILE_PAIRS = 4096,  /* pairs of threads that are counted separately */
  PROFILE_SITES = 1000,  /* stacks that are listed: the first by each of bytes, objects, ages, and what is live at the
                            peak and the end */
};

/* One part of the progress; live_* and stamp are those before its first op. */
struct profile_window {
  uint64_t position, stamp, ops, acquires, releases, acquired_bytes, live_bytes, live_objects;
};

/* Released objects, by size and age. */
struct profile_lifetime {
  uint64_t objects, bytes;
};

/* Objects for which the number of touched OS pages was recorded. */
struct profile_touched {
  uint64_t objects, bytes, os_pages;
};

struct profile_reallocs {
  uint64_t calls, in_place, grew, shrank,
      copied_bytes; /* of live objects; copied_bytes: old bytes that moved objects keep */
};

struct profile_pair {
  uint32_t acquirer, releaser;
  uint64_t objects, bytes; /* objects 0: empty */
};

/* Objects acquired with one stack. A realloc keeps an object at its site. */
struct profile_site {
  uint64_t objects, bytes, live_objects, live_bytes, peak_live_bytes;
  uint64_t lifetime_bytes;           /* sum over released objects */
  uint64_t remote_objects;           /* released by another thread */
  uint64_t peak_bytes, peak_objects; /* live when the whole program's live bytes were at their peak */
  uint64_t peak_number;              /* the peak of peak_bytes; at later peaks the site was as it is now */
};

struct profile_tables {
  struct size_histogram *requests;                                           /* by call id */
  struct profile_lifetime (*by_bytes)[PROFILE_AGES], (*by_ns)[PROFILE_AGES]; /* [size bucket][age] */
  struct profile_touched touched[SIZE_BUCKETS];
  struct profile_pair *pairs;
  uint64_t pairs_left_out; /* objects */
  struct profile_reallocs reallocs;
  struct {
    uint64_t objects, first_bytes, last_bytes;
  } chains[PROFILE_CHAINS + 1]; /* released objects by number of reallocs; the last: PROFILE_CHAINS or more */
  struct profile_site *sites;   /* by stack node; 0: not known */
  uint32_t site_count;
  uint64_t live_bytes, peak_live_bytes, peak_number;
};

/* False if there is no memory; free in any case. */
bool profile_tables_init(struct profile_tables *tables, uint32_t stack_nodes);
void profile_tables_free(struct profile_tables *tables);

/* The bucket of an age: 0 for 0, else 1 + log2. */
static inline unsigned profile_age(uint64_t age) {
  unsigned bucket = age ? 64 - (unsigned)__builtin_clzll(age) : 0;
  return bucket < PROFILE_AGES ? bucket : PROFILE_AGES - 1;
}

static inline void profile_request_add(struct profile_tables *tables, unsigned call, uint64_t request_bytes) {
  size_histogram_add(&tables->requests[call], request_bytes);
}

static inline void profile_lifetime_add(struct profile_tables *tables, uint64_t size_bytes, uint64_t age_bytes,
                                        uint64_t age_ns) {
  unsigned size = size_bucket(size_bytes);
  struct profile_lifetime *bytes = &tables->by_bytes[size][profile_age(age_bytes)];
  struct profile_lifetime *ns = &tables->by_ns[size][profile_age(age_ns)];
  bytes->objects++;
  bytes->bytes += size_bytes;
  ns->objects++;
  ns->bytes += size_bytes;
}

static inline void profile_touched_add(struct profile_tables *tables, uint64_t size_bytes, uint64_t os_pages) {
  struct profile_touched *touched = &tables->touched[size_bucket(size_bytes)];
  touched->objects++;
  touched->bytes += size_bytes;
  touched->os_pages += os_pages;
}

void profile_pair_add(struct profile_tables *tables, uint32_t acquirer, uint32_t releaser, uint64_t size_bytes);
void profile_chain_add(struct profile_tables *tables, uint32_t reallocs, uint64_t first_bytes, uint64_t last_bytes);
void profile_site_acquired(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes);
void profile_site_released(struct profile_tables *tables, uint32_t stack, uint64_t size_bytes, uint64_t age_bytes,
                           bool remote);
void profile_site_resize(struct profile_tables *tables, uint32_t stack, uint64_t old_bytes, uint64_t new_bytes);

/* Adds the keys sizes, lifetimes_bytes, lifetimes_ns, thread_pairs, pairs_left_out, reallocs, touched and sites. */
void profile_tables_json(struct profile_tables *tables, json_t *object);
