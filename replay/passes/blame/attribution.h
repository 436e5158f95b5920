/* SPDX-License-Identifier: MIT */
/* Attribution: who holds each byte of the resident OS pages, at one position (docs/use/BLAME.md).

   Job: note the birth of each live object (position, site, thread, phase); join the live objects with the OS pages that
   they are in, share each OS page's empty bytes among its objects, and sum up by group. Invariants: every byte is
   attributed, in whole bytes: the sums of each grouping are those of the table of OS pages; one caller at a time;
   memory mapped at set-up, O(slots + OS pages + groups); O(live objects + OS pages that they are in) per position. */
#pragma once

#include "core/workload/origins.h"
#include "replay/engine/run_spec.h"
#include "replay/engine/state.h"
#include "replay/memory/figures.h"

#include <stdbool.h>
#include <stdint.h>

/* The request and the figures of the blame pass: plain types, in memory shared by the engine and its parent
   (docs/use/BLAME.md). Nothing here is a pointer. */

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

/* An entry describes the object that lives in the slot, also after a realloc. */
struct birth {
  uint64_t position;
  uint32_t site, thread, phase;
};

struct births {
  struct origins origins; /* bytes NULL: no origins file */
  struct birth *of_slot;
  uint32_t phase; /* of an object that is born now */
};

extern struct births births;

/* Call before the first op; origins_fd: -1: no file. Fails by engine_fail. */
void births_setup(int origins_fd);

/* Notes that the op at that position, of that thread, acquired a new object in the slot. Positions rise. */
static inline void births_note(uint64_t position, uint32_t thread, uint32_t slot) {
  uint32_t site = 0;
  if (births.origins.bytes) {
    const struct origins_header *header = &births.origins.header;
    while (births.phase < header->marks && births.origins.marks[births.phase] <= position)
      births.phase++;
    site = position < header->ops ? births.origins.site_of_op[position] : 0;
    if (site >= header->sites)
      site = 0;
  }
  births.of_slot[slot] = (struct birth){position, site, thread, births.phase};
}

/* Call after births_setup. Returns 0, or -1 with errno set. */
int attribution_setup(void);

/* Call right after the memory map has sampled the position; parts: what it found. Fills in the groups, which
   must be clear. Returns the number of live objects. */
uint64_t attribution_make(const struct fragmentation_row *parts);

/* Sums by group, of each grouping, at one position.

   Job: a table per grouping, of groups and what they hold; rows made of these. Invariants: tables are mapped at set-up
   and touched only as far as groups occur; where a grouping has more groups than its table has room for, the groups
   beyond share one entry; groups that do not fit into the rows given are summed in the row BLAME_OTHERS. No malloc. */

/* Where rows go. */
struct blame_rows {
  struct blame_row *rows;
  uint64_t count, limit, lost;
};

/* Adds the rows of a position: one for each group that holds fold_below_bytes or more, and one for all other groups. */
void groups_put(struct blame_rows *into, uint32_t at, uint64_t fold_below_bytes);

/* Begins a new position: no group occurs yet. */
void groups_clear(void);

/* Which objects are in each OS page at the present moment (os_pages.h).

   Job: a list of objects for each OS page, made by counting: the caller passes all objects twice, in the same order.
   Invariants: a list has its objects in the order in which they were given; memory mapped at set-up, eight bytes per OS
   page of the table, and four per object and OS page that it is in; no malloc. There is room for all objects if they do
   not overlap; where so many overlap that it does not suffice, lists have only their first objects, at least one each.
   The alternative, sorting all objects by address, took half of an attribution's time. */

/* A caller that looks ahead may read this many entries behind a list, but not use them. */
enum { PAGE_LISTS_BEYOND = 16 };

/* most_objects: the largest number of objects. Returns 0, or -1 with errno set. */
int page_lists_setup(uint32_t most_objects);

/* Begins a new moment; the table of OS pages must be complete. Then call page_lists_count for all objects,
   page_lists_lay_out, and page_lists_put for the same objects. Empty ranges are in no OS page. */
void page_lists_begin(void);
void page_lists_count(uint64_t address, uint64_t bytes);
void page_lists_lay_out(void);
void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object);

/* Returns the list of the OS page at that place of the table. */
const uint32_t *page_lists_of(uint32_t place, uint32_t *count);
