/* SPDX-License-Identifier: MIT */
/* Sums by group, of each grouping, at one position.

   Job: the table of each grouping, which knows the group that an object is in and what it holds; rows of them. Not its
   job: what holds what (attribution.h). Invariants: tables are mapped at set-up and touched as far as groups occur; a
   grouping with more groups than its table has room for sums the rest in one; what does not fit into the rows given is
   summed in the row of the others. No malloc. */
#pragma once

#include "replay/state/blame_figures.h"

struct group {
  struct blame_sums sums;
  uint64_t last_os_page; /* that it was found in: the number of the OS page, counted from 1 */
  bool listed;
};

struct grouping {
  struct group *groups;
  uint32_t *list;         /* those that occur at this position */
  uint32_t listed, limit; /* limit: the last one is for all beyond the table */
  bool truncated;
};

extern struct grouping groupings[BLAME_GROUPINGS];

/* So many groups each. Returns 0, or -1 with errno set. */
int groups_setup(const uint64_t counts[BLAME_GROUPINGS]);

/* The place of a group in its table, from now on among those that occur. */
static inline uint32_t groups_place(enum blame_grouping which, uint32_t number) {
  struct grouping *grouping = &groupings[which];
  if (__builtin_expect(grouping->truncated && number >= grouping->limit - 1, 0))
    number = grouping->limit - 1;
  struct group *group = &grouping->groups[number];
  if (!group->listed) {
    group->listed = true;
    grouping->list[grouping->listed++] = number;
  }
  return number;
}

/* Where rows go. */
struct blame_rows {
  struct blame_row *rows;
  uint64_t count, limit, lost;
};

/* Adds the rows of a position: of groups that hold fold_below_bytes or more each, and of all others together. */
void groups_put(struct blame_rows *into, uint32_t at, uint64_t fold_below_bytes);

/* Sums of a grouping. */
struct blame_sums groups_sum(enum blame_grouping which);

/* A new position: no group occurs. */
void groups_clear(void);
