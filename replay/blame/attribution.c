#include "replay/blame/attribution.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/workload/size_histogram.h"
#include "replay/blame/births.h"
#include "replay/blame/groups.h"
#include "replay/blame/live_objects.h"
#include "replay/memory/os_pages.h"

#define PREFETCH_AHEAD 16

enum { AGES = 66 };

/* Places of an object's groups in their tables. */
struct places {
  uint32_t at[BLAME_GROUPINGS];
};

static struct places *places; /* by index among the sorted live objects */

static struct {
  const struct live_object *objects;
  uint64_t count, first; /* first: all before it end before the OS pages that are still to come */
  uint64_t os_page_bytes, os_pages;
} walk;

int attribution_setup(void) {
  const uint64_t counts[BLAME_GROUPINGS] = {[BLAME_SITE] = births_sites(),
                                            [BLAME_FUNCTION] = births_functions(),
                                            [BLAME_THREAD] = engine.workload.header.threads,
                                            [BLAME_SIZE] = SIZE_BUCKETS,
                                            [BLAME_PHASE] = births_phases(),
                                            [BLAME_AGE] = AGES};
  places = os_map((engine.workload.header.slots + 1ull) * sizeof *places, true);
  return places && live_objects_setup(engine.workload.header.slots) == 0 && groups_setup(counts) == 0 ? 0 : -1;
}

static uint32_t age_class(uint64_t position, uint64_t birth) {
  uint64_t age = position > birth ? position - 1 - birth : 0;
  return age ? 64 - (uint32_t)__builtin_clzll(age) : 0;
}

static void place_objects(uint64_t position) {
  for (uint64_t index = 0; index < walk.count; index++) {
    const struct live_object *object = &walk.objects[index];
    if (index + PREFETCH_AHEAD < walk.count)
      __builtin_prefetch(&births.of_slot[walk.objects[index + PREFETCH_AHEAD].slot]);
    const struct birth *birth = &births.of_slot[object->slot];
    const uint32_t numbers[BLAME_GROUPINGS] = {
        [BLAME_SITE] = birth->site,     [BLAME_FUNCTION] = births_function(birth->site),
        [BLAME_THREAD] = birth->thread, [BLAME_SIZE] = size_bucket(object->size_bytes),
        [BLAME_PHASE] = birth->phase,   [BLAME_AGE] = age_class(position, birth->position)};
    for (int which = 0; which < BLAME_GROUPINGS; which++) {
      uint32_t place = groups_place((enum blame_grouping)which, numbers[which]);
      groupings[which].groups[place].objects++;
      places[index].at[which] = place;
    }
  }
}

/* What of [address, address + bytes) lies in the OS page that begins there. */
static inline uint64_t part_in(uint64_t address, uint64_t bytes, uint64_t os_page) {
  uint64_t first = address > os_page ? address : os_page, end = address + bytes;
  uint64_t os_page_end = os_page + walk.os_page_bytes;
  end = end < os_page_end ? end : os_page_end;
  return end > first ? end - first : 0;
}

static inline uint64_t smaller(uint64_t left, uint64_t right) {
  return left < right ? left : right;
}

static inline uint64_t end_of(const struct live_object *object) {
  return object->address + object->size_bytes + object->rounding_bytes;
}

/* What a group holds of an OS page. */
struct holding {
  uint64_t live_bytes, rounding_bytes, empty_bytes;
};

/* The only groups in this OS page so far; NULL: there are several of that grouping. */
struct alone {
  struct group *group[BLAME_GROUPINGS];
  bool begun;
};

static inline void give(const struct places *to, const struct holding *holding, struct alone *alone) {
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    struct group *group = &groupings[which].groups[to->at[which]];
    group->live_bytes += holding->live_bytes;
    group->rounding_bytes += holding->rounding_bytes;
    group->empty_bytes += holding->empty_bytes;
    if (group->last_os_page != walk.os_pages) {
      group->last_os_page = walk.os_pages;
      group->os_pages++;
      alone->group[which] = alone->begun ? NULL : group;
    }
  }
  alone->begun = true;
}

/* Objects that lie in the OS page: the indexes among which they are, and how many. */
struct players {
  uint64_t first, end, count;
};

static struct players find_players(uint64_t os_page) {
  while (walk.first < walk.count && end_of(&walk.objects[walk.first]) <= os_page)
    walk.first++;
  struct players players = {walk.first, walk.first, 0};
  for (; players.end < walk.count && walk.objects[players.end].address < os_page + walk.os_page_bytes; players.end++) {
    const struct live_object *object = &walk.objects[players.end];
    players.count += part_in(object->address, object->size_bytes + object->rounding_bytes, os_page) > 0;
  }
  return players;
}

/* An OS page in which something is live. */
static void add_os_page(uint64_t os_page, uint64_t live_bytes, uint64_t rounding_bytes) {
  struct players players = find_players(os_page);
  HT_ASSERT(players.count > 0);
  if (players.count == 0)
    return;
  walk.os_pages++;
  uint64_t empty_bytes = walk.os_page_bytes - live_bytes - rounding_bytes;
  uint64_t share = empty_bytes / players.count, larger = empty_bytes % players.count;
  struct alone alone = {.begun = false};
  for (uint64_t index = players.first; index < players.end; index++) {
    const struct live_object *object = &walk.objects[index];
    struct holding holding = {part_in(object->address, object->size_bytes, os_page),
                              part_in(object->address + object->size_bytes, object->rounding_bytes, os_page), share};
    if (holding.live_bytes + holding.rounding_bytes == 0)
      continue;
    holding.empty_bytes += larger > 0;
    larger -= larger > 0;
    /* Where objects overlap, until the OS page is full. */
    live_bytes -= holding.live_bytes = smaller(holding.live_bytes, live_bytes);
    rounding_bytes -= holding.rounding_bytes = smaller(holding.rounding_bytes, rounding_bytes);
    give(&places[index], &holding, &alone);
  }
  for (int which = 0; which < BLAME_GROUPINGS; which++)
    if (alone.group[which])
      alone.group[which]->alone_bytes += walk.os_page_bytes;
}

static void assert_sums(const struct os_pages_sum *sum) {
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    struct group all = groups_sum((enum blame_grouping)which);
    HT_ASSERT(all.objects == walk.count);
    HT_ASSERT(all.live_bytes == sum->live_bytes && all.rounding_bytes == sum->rounding_bytes);
    HT_ASSERT(all.empty_bytes == sum->beside_bytes);
    HT_ASSERT(all.alone_bytes <= sum->live_bytes + sum->rounding_bytes + sum->beside_bytes);
    (void)all;
  }
  (void)sum;
}

uint64_t attribution_make(const struct fragmentation_row *parts) {
  walk.objects = live_objects_sorted(&walk.count);
  walk.first = walk.os_pages = 0;
  walk.os_page_bytes = os_page_bytes();
  place_objects(parts->position);
  os_pages_visit_held(add_os_page);
  assert_sums(&parts->sum);
  return walk.count;
}
