/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/groups.h"

#include "core/base/os.h"
#include "core/workload/statistics.h"

enum { TABLE_LIMIT = 1 << 20 };

struct grouping groupings[BLAME_GROUPINGS];

int groups_setup(const uint64_t counts[BLAME_GROUPINGS]) {
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    struct grouping *grouping = &groupings[which];
    grouping->truncated = counts[which] > TABLE_LIMIT;
    grouping->limit = grouping->truncated ? TABLE_LIMIT + 1 : (uint32_t)counts[which];
    grouping->groups = os_map(grouping->limit * sizeof *grouping->groups, true);
    grouping->list = os_map(grouping->limit * sizeof *grouping->list, true);
    if (!grouping->groups || !grouping->list)
      return -1;
  }
  return 0;
}

/* Returns the group's number in results (docs/use/BLAME.md). */
static int64_t number_of(enum blame_grouping which, uint32_t place) {
  if (groupings[which].truncated && place == groupings[which].limit - 1)
    return BLAME_BEYOND;
  if (which == BLAME_SIZE)
    return (int64_t)size_bucket_lower(place);
  if (which == BLAME_AGE)
    return place ? (int64_t)((uint64_t)1 << (place - 1)) : 0;
  return place;
}

static void add(struct blame_sums *sum, const struct blame_sums *more) {
  sum->objects += more->objects;
  sum->live_bytes += more->live_bytes;
  sum->rounding_bytes += more->rounding_bytes;
  sum->empty_bytes += more->empty_bytes;
  sum->os_pages += more->os_pages;
  sum->alone_bytes += more->alone_bytes;
  sum->alone_empty_bytes += more->alone_empty_bytes;
}

static void put(struct blame_rows *into, struct blame_row row) {
  into->rows[into->count++] = row;
}

static void put_grouping(struct blame_rows *into, uint32_t at, enum blame_grouping which, uint64_t fold_below_bytes) {
  const struct grouping *grouping = &groupings[which];
  struct blame_sums others = {0};
  uint64_t folded = 0;
  /* Room is kept for the row BLAME_OTHERS of this grouping and of those that follow. */
  uint64_t kept = BLAME_GROUPINGS - which;
  for (uint32_t index = 0; index < grouping->listed; index++) {
    uint32_t place = grouping->list[index];
    const struct blame_sums *sums = &grouping->groups[place].sums;
    bool full = into->count + kept >= into->limit;
    if (!full && sums->live_bytes + sums->rounding_bytes + sums->empty_bytes >= fold_below_bytes) {
      put(into, (struct blame_row){at, which, number_of(which, place), 1, *sums});
      continue;
    }
    into->lost += full;
    folded++;
    add(&others, sums);
  }
  if (folded > 0 && into->count < into->limit)
    put(into, (struct blame_row){at, which, BLAME_OTHERS, folded, others});
}

void groups_put(struct blame_rows *into, uint32_t at, uint64_t fold_below_bytes) {
  for (int which = 0; which < BLAME_GROUPINGS; which++)
    put_grouping(into, at, (enum blame_grouping)which, fold_below_bytes);
}

struct blame_sums groups_sum(enum blame_grouping which) {
  struct blame_sums sum = {0};
  for (uint32_t index = 0; index < groupings[which].listed; index++)
    add(&sum, &groupings[which].groups[groupings[which].list[index]].sums);
  return sum;
}

void groups_clear(void) {
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    struct grouping *grouping = &groupings[which];
    for (uint32_t index = 0; index < grouping->listed; index++)
      grouping->groups[grouping->list[index]] = (struct group){0};
    grouping->listed = 0;
  }
}
