/* SPDX-License-Identifier: MIT */
/* The request and the figures of the blame pass: plain types, in memory shared by the engine and its parent
   (docs/use/BLAME.md). Nothing here is a pointer. */
#pragma once

#include "replay/engine/run_spec.h"
#include "replay/memory/memory_figures.h"

#include <stdbool.h>
#include <stdint.h>

enum blame_grouping { BLAME_SITE, BLAME_FUNCTION, BLAME_THREAD, BLAME_SIZE, BLAME_PHASE, BLAME_AGE, BLAME_GROUPINGS };

enum {
  BLAME_EVEN_LIMIT = 250, /* each position is one of the memory map, too */
  BLAME_REQUESTED_LIMIT = SPEC_WORDS,
  BLAME_POSITIONS = BLAME_EVEN_LIMIT + BLAME_REQUESTED_LIMIT + 2,
  BLAME_ROWS = 2 << 20, /* sparse, like all of these tables: only written rows cost memory */
  BLAME_PEAK_ROWS = 1 << 20,
};

/* Why there is a row for a position. */
enum blame_why {
  BLAME_BECAUSE_EVEN = 1,
  BLAME_BECAUSE_REQUESTED = 2,
  BLAME_BECAUSE_LIVE_PEAK = 4,
  BLAME_BECAUSE_END = 8,
  BLAME_BECAUSE_PEAK = 16,
};

/* Rows that are not a group of objects. */
#define BLAME_OTHERS (-1)
#define BLAME_BEYOND (-2)

/* The bytes that a group holds. */
struct blame_sums {
  uint64_t objects, live_bytes, rounding_bytes, empty_bytes, os_pages, alone_bytes;
  uint64_t alone_empty_bytes; /* of alone_bytes */
};

struct blame_row {
  uint32_t at, grouping; /* at: index of its position */
  int64_t group;
  uint64_t groups; /* 1; for BLAME_OTHERS, their number */
  struct blame_sums sums;
};

struct blame_position {
  struct fragmentation_row parts;
  uint64_t live_objects;
  uint32_t why; /* enum blame_why, or'ed */
};

struct requested_position {
  uint64_t position;
  uint32_t why;
};

struct blame_request {
  int origins_fd; /* -1: none */
  uint32_t even;
  uint32_t end_why;         /* further reasons for the end position */
  uint32_t requested_count; /* in rising order, each once, without the end */
  struct requested_position requested[BLAME_REQUESTED_LIMIT];
};

struct blame_figures {
  struct memory_figures memory; /* first: it is a pass that samples memory */
  struct blame_request request; /* written by the parent */
  bool measured;                /* false: residency can't be read */
  uint32_t position_count;
  uint64_t row_count, rows_lost;
  struct blame_position positions[BLAME_POSITIONS];
  struct blame_row rows[BLAME_ROWS];
  /* The position of the highest RSS: replaced as long as RSS rises. */
  struct blame_position peak;
  uint64_t peak_row_count, peak_rows_lost;
  struct blame_row peak_rows[BLAME_PEAK_ROWS];
};
