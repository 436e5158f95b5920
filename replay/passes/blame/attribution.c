/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/attribution.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/workload/statistics.h"
#include "replay/memory/fragmentation.h"
#include "replay/memory/os_pages.h"
#include "replay/passes/blame/groups.h"
#include "replay/passes/blame/page_lists.h"

#include <errno.h>
#include <string.h>

struct births births;

void births_setup(int origins_fd) {
  struct error error = {""};
  if (origins_fd >= 0) {
    if (origins_open_fd(&births.origins, origins_fd, engine.result->origins_path, &engine.workload.header, &error) != 0)
      engine_fail(NULL, "%s", error.text);
    engine.result->origins_first = (uint64_t)(uintptr_t)births.origins.bytes;
    engine.result->origins_last = engine.result->origins_first + births.origins.header.file_bytes;
  }
  uint64_t bytes = (engine.workload.header.slots + 1ull) * sizeof *births.of_slot;
  births.of_slot = os_map(bytes, true);
  if (!births.of_slot)
    engine_fail(NULL, "no memory for the origins of %u slots: %s", engine.workload.header.slots, strerror(errno));
  memset(births.of_slot, 0, bytes);
}

uint32_t births_sites(void) {
  return births.origins.bytes ? births.origins.header.sites : 1;
}

uint32_t births_functions(void) {
  return births.origins.bytes ? births.origins.header.functions : 1;
}

uint32_t births_phases(void) {
  return births.origins.bytes ? births.origins.header.marks + 1 : 1;
}

enum { AGES = 66, PREFETCH_AHEAD = 12 };
_Static_assert((int)PREFETCH_AHEAD < (int)PAGE_LISTS_BEYOND, "may be read");

/* A live object, and where its groups are in their tables. */
struct player {
  uint64_t address, size_bytes;
  uint32_t rounding_bytes;
  uint32_t places[BLAME_GROUPINGS];
};

static struct player *players; /* in the order of slots */
static uint32_t player_count;

/* Groupings that have more than one group; the others are known without looking at each object. */
static enum blame_grouping divided[BLAME_GROUPINGS];
static int divided_count;

static uint64_t os_page_size_bytes;
static uint64_t os_pages_seen; /* at this position, with objects */

int attribution_setup(void) {
  const uint64_t counts[BLAME_GROUPINGS] = {[BLAME_SITE] = births_sites(),
                                            [BLAME_FUNCTION] = births_functions(),
                                            [BLAME_THREAD] = engine.workload.header.threads,
                                            [BLAME_SIZE] = SIZE_BUCKETS,
                                            [BLAME_PHASE] = births_phases(),
                                            [BLAME_AGE] = AGES};
  for (int which = 0; which < BLAME_GROUPINGS; which++)
    if (counts[which] > 1)
      divided[divided_count++] = (enum blame_grouping)which;
  os_page_size_bytes = os_page_bytes();
  players = os_map((engine.workload.header.slots + 1ull) * sizeof *players, true);
  return players && page_lists_setup(engine.workload.header.slots) == 0 && groups_setup(counts) == 0 ? 0 : -1;
}

static uint32_t age_class(uint64_t position, uint64_t birth) {
  uint64_t age = position > birth ? position - 1 - birth : 0;
  return age ? 64 - (uint32_t)__builtin_clzll(age) : 0;
}

static inline void place_player(struct player *player, const struct birth *birth, uint64_t position) {
  const uint32_t numbers[BLAME_GROUPINGS] = {
      [BLAME_SITE] = birth->site,     [BLAME_FUNCTION] = births_function(birth->site),
      [BLAME_THREAD] = birth->thread, [BLAME_SIZE] = size_bucket(player->size_bytes),
      [BLAME_PHASE] = birth->phase,   [BLAME_AGE] = age_class(position, birth->position)};
  for (int index = 0; index < divided_count; index++) {
    enum blame_grouping which = divided[index];
    uint32_t place = groups_place(which, numbers[which]);
    groupings[which].groups[place].sums.objects++;
    player->places[which] = place;
  }
}

/* Collects all live objects, and the list of objects in each OS page. */
static void collect_players(uint64_t position) {
  player_count = 0;
  page_lists_begin();
  for (uint32_t slot = 0; slot < engine.workload.header.slots; slot++) {
    const struct object *object = &engine.objects[slot];
    if (!object->pointer || object->size_bytes == OBJECT_MISSING)
      continue;
    struct player *player = &players[player_count++];
    player->address = (uint64_t)(uintptr_t)object->pointer;
    player->size_bytes = object->size_bytes;
    player->rounding_bytes = fragmentation_rounding_of(slot, object);
    place_player(player, &births.of_slot[slot], position);
    page_lists_count(player->address, player->size_bytes + player->rounding_bytes);
  }
  page_lists_lay_out();
  for (uint32_t index = 0; index < player_count; index++)
    page_lists_put(players[index].address, players[index].size_bytes + players[index].rounding_bytes, index);
}

static inline uint64_t smaller(uint64_t left, uint64_t right) {
  return left < right ? left : right;
}

/* Returns how many bytes of [address, address + bytes) are in the OS page that begins at os_page. */
static inline uint64_t part_in(uint64_t address, uint64_t bytes, uint64_t os_page) {
  uint64_t first = address > os_page ? address : os_page;
  uint64_t end = smaller(address + bytes, os_page + os_page_size_bytes);
  return end > first ? end - first : 0;
}

/* What a group holds of an OS page. */
struct holding {
  uint64_t live_bytes, rounding_bytes, empty_bytes;
};

/* The only group of each grouping in this OS page so far; NULL: there are several. */
struct alone {
  struct group *group[BLAME_GROUPINGS];
  bool begun;
};

static inline void give(const struct player *to, const struct holding *holding, struct alone *alone) {
  for (int index = 0; index < divided_count; index++) {
    enum blame_grouping which = divided[index];
    struct group *group = &groupings[which].groups[to->places[which]];
    group->sums.live_bytes += holding->live_bytes;
    group->sums.rounding_bytes += holding->rounding_bytes;
    group->sums.empty_bytes += holding->empty_bytes;
    if (group->last_os_page != os_pages_seen) {
      group->last_os_page = os_pages_seen;
      group->sums.os_pages++;
      alone->group[which] = alone->begun ? NULL : group;
    }
  }
  alone->begun = true;
}

/* Adds an OS page in which something is live. */
static void add_os_page(const struct os_page_held *os_page) {
  uint32_t count;
  const uint32_t *list = page_lists_of(os_page->place, &count);
  HT_ASSERT(count > 0);
  if (count == 0)
    return;
  os_pages_seen++;
  uint64_t live_bytes = os_page->live_bytes, rounding_bytes = os_page->rounding_bytes;
  uint64_t empty_bytes = os_page_size_bytes - live_bytes - rounding_bytes;
  uint64_t share = empty_bytes / count, larger = empty_bytes % count;
  struct alone alone = {.begun = false};
  for (uint32_t index = 0; index < count; index++) {
    /* Behind this list there is usually the next one. */
    __builtin_prefetch(&players[list[index + PREFETCH_AHEAD]]);
    const struct player *player = &players[list[index]];
    struct holding holding = {part_in(player->address, player->size_bytes, os_page->address),
                              part_in(player->address + player->size_bytes, player->rounding_bytes, os_page->address),
                              share + (index < larger)};
    /* Where objects overlap: until the OS page is full. Where so many overlap that the list lacks some, the last object
       gets the share of these. */
    bool last = index == count - 1;
    live_bytes -= holding.live_bytes = last ? live_bytes : smaller(holding.live_bytes, live_bytes);
    rounding_bytes -= holding.rounding_bytes = last ? rounding_bytes : smaller(holding.rounding_bytes, rounding_bytes);
    give(player, &holding, &alone);
  }
  for (int index = 0; index < divided_count; index++) {
    struct group *group = alone.group[divided[index]];
    if (group) {
      group->sums.alone_bytes += os_page_size_bytes;
      group->sums.alone_empty_bytes += empty_bytes;
    }
  }
}

/* Groupings with one group, which holds everything. */
static void fill_undivided(const struct os_pages_sum *sum) {
  const struct blame_sums all = {.objects = player_count,
                                 .live_bytes = sum->live_bytes,
                                 .rounding_bytes = sum->rounding_bytes,
                                 .empty_bytes = sum->beside_bytes,
                                 .os_pages = os_pages_seen,
                                 .alone_bytes = os_pages_seen * os_page_size_bytes,
                                 .alone_empty_bytes = sum->beside_bytes};
  int next = 0;
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    if (next < divided_count && divided[next] == (enum blame_grouping)which)
      next++;
    else if (player_count > 0)
      groupings[which].groups[groups_place((enum blame_grouping)which, 0)].sums = all;
  }
}

static void assert_sums(const struct os_pages_sum *sum) {
  for (int which = 0; which < BLAME_GROUPINGS; which++) {
    struct blame_sums all = groups_sum((enum blame_grouping)which);
    HT_ASSERT(all.objects == player_count);
    HT_ASSERT(all.live_bytes == sum->live_bytes && all.rounding_bytes == sum->rounding_bytes);
    HT_ASSERT(all.empty_bytes == sum->beside_bytes);
    HT_ASSERT(all.alone_bytes <= sum->live_bytes + sum->rounding_bytes + sum->beside_bytes);
    (void)all;
  }
  (void)sum;
}

uint64_t attribution_make(const struct fragmentation_row *parts) {
  os_pages_seen = 0;
  collect_players(parts->position);
  os_pages_visit_held(add_os_page);
  fill_undivided(&parts->sum);
#ifdef HT_DEBUG
  assert_sums(&parts->sum);
#else
  (void)assert_sums;
#endif
  return player_count;
}
