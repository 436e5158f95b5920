/* SPDX-License-Identifier: MIT */
#include "replay/passes/blame/attribution.h"

#include "core/base/assert.h"
#include "core/base/os.h"
#include "core/workload/statistics.h"
#include "replay/memory/fragmentation.h"
#include "replay/memory/os_pages.h"

#include <errno.h>
#include <string.h>

struct births births;

void births_setup(int origins_fd) {
  struct error error = {0};
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

enum { TABLE_LIMIT = 1 << 20 };

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

static struct grouping groupings[BLAME_GROUPINGS];

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

/* counts: groups of each grouping. Returns 0, or -1 with errno set. */
static int groups_setup(const uint64_t counts[BLAME_GROUPINGS]) {
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

static struct blame_sums groups_sum(enum blame_grouping which) {
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

/* By place: where its list begins, with one more entry behind the last place; and where the next object goes, finally
   the list's end. Before the lists are laid out, ends are counts. */
static uint32_t *begins, *ends;
static uint32_t *objects;
static uint64_t os_page, limit;

int page_lists_setup(uint32_t most_objects) {
  os_page = os_page_bytes();
  /* Objects that do not overlap are in one OS page each, plus one for each border between two OS pages. */
  limit = OS_PAGES_PLACES + (uint64_t)most_objects;
  begins = os_map((OS_PAGES_PLACES + 1ull) * sizeof *begins, true);
  ends = os_map((OS_PAGES_PLACES + 1ull) * sizeof *ends, true);
  objects = os_map((limit + PAGE_LISTS_BEYOND) * sizeof *objects, true);
  return begins && ends && objects ? 0 : -1;
}

void page_lists_begin(void) {
  memset(ends, 0, os_pages_places() * sizeof *ends);
}

/* Returns the next OS page after address that may have a place, as this one has none. */
static uint64_t next_span(uint64_t address) {
  uint64_t span = os_page * OS_PAGES_OF_SPAN;
  return (address / span + 1) * span;
}

/* Returns the next place in [address, address + bytes) from *address on, and advances *address; NO_PLACE: none left. */
static inline uint32_t next_place(uint64_t *address, uint64_t end) {
  while (*address < end) {
    uint32_t place = os_pages_place(*address);
    *address = place != OS_PAGES_NO_PLACE ? (*address / os_page + 1) * os_page : next_span(*address);
    if (place != OS_PAGES_NO_PLACE)
      return place;
  }
  return OS_PAGES_NO_PLACE;
}

void page_lists_count(uint64_t address, uint64_t bytes) {
  for (uint64_t end = address + bytes;;) {
    uint32_t place = next_place(&address, end);
    if (place == OS_PAGES_NO_PLACE)
      return;
    ends[place]++;
  }
}

void page_lists_lay_out(void) {
  uint64_t room = limit - os_pages_places(); /* for objects that are not the first of their list */
  uint32_t next = 0;
  for (uint64_t place = 0; place < os_pages_places(); place++) {
    uint64_t others = ends[place] > 0 ? ends[place] - 1 : 0;
    if (others > room)
      others = room;
    room -= others;
    begins[place] = next;
    next += (ends[place] > 0) + (uint32_t)others;
    ends[place] = begins[place];
  }
  begins[os_pages_places()] = next;
}

void page_lists_put(uint64_t address, uint64_t bytes, uint32_t object) {
  for (uint64_t end = address + bytes;;) {
    uint32_t place = next_place(&address, end);
    if (place == OS_PAGES_NO_PLACE)
      return;
    if (ends[place] < begins[place + 1])
      objects[ends[place]++] = object;
  }
}

const uint32_t *page_lists_of(uint32_t place, uint32_t *count) {
  *count = ends[place] - begins[place];
  return objects + begins[place];
}

static inline uint32_t births_function(uint32_t site) {
  return births.origins.bytes ? births.origins.function_of_site[site] : 0;
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
  /* Site and function 0, and the phase before the first mark, are there without an origins file, too. */
  const struct origins_header none = {.sites = 1, .functions = 1};
  const struct origins_header *origins = births.origins.bytes ? &births.origins.header : &none;
  const uint64_t counts[BLAME_GROUPINGS] = {[BLAME_SITE] = origins->sites,
                                            [BLAME_FUNCTION] = origins->functions,
                                            [BLAME_THREAD] = engine.workload.header.threads,
                                            [BLAME_SIZE] = SIZE_BUCKETS,
                                            [BLAME_PHASE] = origins->marks + 1ull,
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
    player->rounding_bytes = fragmentation_rounding_of(slot);
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
