/* SPDX-License-Identifier: MIT */
/* What the blame pass is asked for and measures: plain types, which the shared result is made of (result.h,
   docs/use/BLAME.md).

   Not its job: measuring (replay/blame/). Nothing here is a pointer. */
#pragma once

#include "replay/state/memory_figures.h"

#include <stdbool.h>
#include <stdint.h>

enum blame_grouping { BLAME_SITE, BLAME_FUNCTION, BLAME_THREAD, BLAME_SIZE, BLAME_PHASE, BLAME_AGE, BLAME_GROUPINGS };

enum {
  BLAME_EVEN_LIMIT = 250, /* each is a position of the memory map, too */
  BLAME_ASKED_LIMIT = 64,
  BLAME_POSITIONS = BLAME_EVEN_LIMIT + BLAME_ASKED_LIMIT + 2,
  BLAME_ROWS = 2 << 20, /* sparse, as all of these: only what is written costs memory */
  BLAME_PEAK_ROWS = 1 << 20,
};

/* Why a position is there. */
enum blame_why {
  BLAME_BECAUSE_EVEN = 1,
  BLAME_BECAUSE_ASKED = 2,
  BLAME_BECAUSE_LIVE_PEAK = 4,
  BLAME_BECAUSE_END = 8,
  BLAME_BECAUSE_PEAK = 16,
};

/* Groups that are no group of objects. */
#define BLAME_OTHERS (-1)
#define BLAME_BEYOND (-2)

/* What a group holds. */
struct blame_sums {
  uint64_t objects, live_bytes, rounding_bytes, empty_bytes, os_pages, alone_bytes;
  uint64_t alone_empty_bytes; /* of alone_bytes */
};

struct blame_row {
  uint32_t at, grouping; /* at: index of its position */
  int64_t group;
  uint64_t groups; /* 1; of BLAME_OTHERS, how many */
  struct blame_sums sums;
};

struct blame_position {
  struct fragmentation_row parts;
  uint64_t live_objects;
  uint32_t why; /* enum blame_why, or'ed */
};

struct blame_asked {
  uint64_t position;
  uint32_t why;
};

struct blame_setup {
  int origins_fd; /* -1: none */
  uint32_t even;
  uint32_t end_why;     /* reasons for the end, beside itself */
  uint32_t asked_count; /* by rising position, each once; none is the end */
  struct blame_asked asked[BLAME_ASKED_LIMIT];
};

struct blame_result {
  bool measured; /* false: residency can't be read */
  uint32_t position_count;
  uint64_t row_count, rows_lost;
  struct blame_position positions[BLAME_POSITIONS];
  struct blame_row rows[BLAME_ROWS];
  /* The position of the highest RSS: replaced as long as RSS rises. */
  struct blame_position peak;
  uint64_t peak_row_count, peak_rows_lost;
  struct blame_row peak_rows[BLAME_PEAK_ROWS];
};
