/* SPDX-License-Identifier: MIT */
/* Sums by group, of each grouping, at one position.

   Job: a table per grouping, of groups and what they hold; rows made of these. Not its job: who holds what
   (attribution.h). Invariants: tables are mapped at set-up and touched only as far as groups occur; where a grouping
   has more groups than its table has room for, the groups beyond share one entry; groups that do not fit into the rows
   given are summed in the row BLAME_OTHERS. No malloc. */
#pragma once

#include "replay/passes/blame/figures.h"

struct group {
  struct blame_sums sums;
  uint64_t last_os_page; /* in which it was found: number of the OS page, counted from 1 */
  bool listed;
};

struct grouping {
  struct group *groups;
  uint32_t *list;         /* groups that occur at this position */
  uint32_t listed, limit; /* limit: the last entry is for all groups beyond the table */
  bool truncated;
};

extern struct grouping groupings[BLAME_GROUPINGS];

/* counts: groups of each grouping. Returns 0, or -1 with errno set. */
int groups_setup(const uint64_t counts[BLAME_GROUPINGS]);

/* Returns the place of a group in its table. From now on the group occurs at this position. */
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

/* Adds the rows of a position: one for each group that holds fold_below_bytes or more, and one for all other groups. */
void groups_put(struct blame_rows *into, uint32_t at, uint64_t fold_below_bytes);

/* Returns the sums of a grouping. */
struct blame_sums groups_sum(enum blame_grouping which);

/* Begins a new position: no group occurs yet. */
void groups_clear(void);
