/* SPDX-License-Identifier: MIT */
/* Samples of data accesses as writer and reader pass them on (FORMAT.md section 6b).

   Not its job: where they come from (capture/sampling/), which object was at the address (convert/inspect/). Invariant:
   samples are not the stream of accesses (accesses.h): nothing can be replayed or simulated from them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where the processor found the data. */
enum access_level {
  ACCESS_LEVEL_UNKNOWN,
  ACCESS_LEVEL_L1,
  ACCESS_LEVEL_LINE_BUFFER, /* an earlier miss was already fetching the line */
  ACCESS_LEVEL_L2,
  ACCESS_LEVEL_L3,
  ACCESS_LEVEL_MEMORY,
  ACCESS_LEVEL_REMOTE,    /* another processor's cache or memory */
  ACCESS_LEVEL_OTHER,     /* a device, uncached memory */
  ACCESS_LEVEL_BEYOND_L1, /* a miss of the first level; the level that had it is not known */
  ACCESS_LEVEL_PAGE_FAULT,
  ACCESS_LEVEL_LIMIT
};

/* A sample's `what`: its level, and these. Neither load nor store: not known. */
enum access_sample_flag {
  ACCESS_SAMPLE_LEVEL_MASK = 15,
  ACCESS_SAMPLE_LOAD = 16,
  ACCESS_SAMPLE_STORE = 32,
  ACCESS_SAMPLE_TLB_MISS = 64,
  ACCESS_SAMPLE_WHATS = 128, /* `what` is below this */
};

struct trace_access_sample {
  uint64_t stamp, address;
  uint64_t latency_cycles; /* of the access, as reported by the processor; 0: not known */
  uint8_t what;
};

/* FOOTER's `access_samples`. */
struct trace_access_sample_totals {
  bool recorded;
  uint64_t rows;       /* in the file */
  uint64_t pending;    /* in no block yet */
  uint64_t kernel;     /* left out: made by the kernel */
  uint64_t no_address; /* left out: the processor gave no address */
  uint64_t lost;       /* for lack of room in the kernel, of all processes recorded at that time */
  uint64_t throttled;  /* how often the kernel suspended sampling, of the same processes */
};

/* Names of the levels, by enum access_level. */
extern const char *const access_level_names[ACCESS_LEVEL_LIMIT];

static inline bool access_sample_is_known(uint8_t what) {
  return what < ACCESS_SAMPLE_WHATS && (what & ACCESS_SAMPLE_LEVEL_MASK) < ACCESS_LEVEL_LIMIT;
}
