/* SPDX-License-Identifier: MIT */
#include "convert/history/ranges.h"

#include "core/base/address_map.h"
#include "core/base/vector.h"

#include <stdlib.h>
#include <string.h>

enum {
  GRANULE_SHIFT = 3,
  TILE_SHIFT = 16,
  TILE_GRANULES = 1 << (TILE_SHIFT - GRANULE_SHIFT),
  TILE_WORDS = TILE_GRANULES / 64,
  LARGE_BYTES =
      32 << 10, /* a large object costs a search and a move in the array, a small object up to 64 words of shadow */
};

struct tile {
  uint64_t bits[TILE_WORDS];
  uint32_t set; /* bits that are 1 */
  uint32_t next_free;
};

struct large {
  uint64_t first, last; /* bytes */
};

struct ranges {
  struct address_map map; /* tile number + 1 to index */
  VECTOR(struct tile) tiles;
  uint32_t free_list;         /* index of the first free tile + 1 */
  VECTOR(struct large) large; /* by address */
};

struct ranges *ranges_new(void) {
  struct ranges *ranges = calloc(1, sizeof *ranges);
  if (ranges && !address_map_init(&ranges->map)) {
    free(ranges);
    return NULL;
  }
  return ranges;
}

void ranges_free(struct ranges *ranges) {
  if (!ranges)
    return;
  address_map_free(&ranges->map);
  free(ranges->tiles.at);
  free(ranges->large.at);
  free(ranges);
}

static uint64_t last_byte(uint64_t address, uint64_t size_bytes) {
  uint64_t last;
  return __builtin_add_overflow(address, size_bytes ? size_bytes - 1 : 0, &last) ? UINT64_MAX : last;
}

static struct tile *find_tile(const struct ranges *ranges, uint64_t number) {
  const struct address_entry *entry = address_map_find(&ranges->map, number + 1);
  return entry->address ? &ranges->tiles.at[entry->slot] : NULL;
}

static struct tile *make_tile(struct ranges *ranges, uint64_t number) {
  struct address_entry *entry = address_map_find(&ranges->map, number + 1);
  if (entry->address)
    return &ranges->tiles.at[entry->slot];
  uint32_t index;
  if (ranges->free_list) {
    index = ranges->free_list - 1;
    ranges->free_list = ranges->tiles.at[index].next_free;
  } else {
    struct tile *tile = vector_add(&ranges->tiles);
    if (!tile)
      return NULL;
    *tile = (struct tile){.set = 0};
    index = (uint32_t)(ranges->tiles.count - 1);
  }
  return address_map_add(&ranges->map, entry, number + 1, index, false) ? &ranges->tiles.at[index] : NULL;
}

static void drop_tile(struct ranges *ranges, uint64_t number) {
  struct address_entry *entry = address_map_find(&ranges->map, number + 1);
  ranges->tiles.at[entry->slot].next_free = ranges->free_list;
  ranges->free_list = entry->slot + 1;
  address_map_remove(&ranges->map, entry);
}

/* The bits of granules first .. last that are in the word. */
static uint64_t word_mask(uint64_t word, uint64_t first, uint64_t last) {
  uint64_t mask = UINT64_MAX;
  if (first / 64 == word)
    mask &= UINT64_MAX << first % 64;
  if (last / 64 == word)
    mask &= UINT64_MAX >> (63 - last % 64);
  return mask;
}

/* Granules of one tile that an object covers, as numbers inside it. */
struct part {
  uint64_t tile, first, last;
};

/* The next part of granules *first .. last; false when there is none. */
static bool next_part(uint64_t *first, uint64_t last, struct part *part) {
  if (*first > last)
    return false;
  part->tile = *first / TILE_GRANULES;
  part->first = *first % TILE_GRANULES;
  part->last = last / TILE_GRANULES == part->tile ? last % TILE_GRANULES : TILE_GRANULES - 1;
  *first = (part->tile + 1) * TILE_GRANULES;
  return true;
}

static bool part_is_taken(const struct tile *tile, const struct part *part) {
  for (uint64_t word = part->first / 64; word <= part->last / 64; word++)
    if (tile->bits[word] & word_mask(word, part->first, part->last))
      return true;
  return false;
}

/* Is any granule of first .. last taken by a small object? */
static bool shadow_is_taken(const struct ranges *ranges, uint64_t first, uint64_t last) {
  struct part part;
  if (last / TILE_GRANULES - first / TILE_GRANULES > ranges->map.count) {
    /* A huge object covers more tiles than exist: check the existing ones. */
    for (uint64_t i = 0; i < address_map_room(&ranges->map); i++) {
      const struct address_entry *entry = &ranges->map.entries[i];
      uint64_t begin = (entry->address - 1) * TILE_GRANULES, end = begin + TILE_GRANULES - 1;
      if (!entry->address || end < first || begin > last)
        continue;
      part = (struct part){entry->address - 1, begin < first ? first % TILE_GRANULES : 0,
                           end > last ? last % TILE_GRANULES : TILE_GRANULES - 1};
      if (part_is_taken(&ranges->tiles.at[entry->slot], &part))
        return true;
    }
    return false;
  }
  while (next_part(&first, last, &part)) {
    const struct tile *tile = find_tile(ranges, part.tile);
    if (tile && part_is_taken(tile, &part))
      return true;
  }
  return false;
}

static bool shadow_set(struct ranges *ranges, uint64_t first, uint64_t last) {
  struct part part;
  while (next_part(&first, last, &part)) {
    struct tile *tile = make_tile(ranges, part.tile);
    if (!tile)
      return false;
    for (uint64_t word = part.first / 64; word <= part.last / 64; word++)
      tile->bits[word] |= word_mask(word, part.first, part.last);
    tile->set += (uint32_t)(part.last - part.first + 1);
  }
  return true;
}

static void shadow_clear(struct ranges *ranges, uint64_t first, uint64_t last) {
  struct part part;
  while (next_part(&first, last, &part)) {
    struct tile *tile = find_tile(ranges, part.tile);
    for (uint64_t word = part.first / 64; word <= part.last / 64; word++)
      tile->bits[word] &= ~word_mask(word, part.first, part.last);
    tile->set -= (uint32_t)(part.last - part.first + 1);
    if (tile->set == 0)
      drop_tile(ranges, part.tile);
  }
}

/* Index of the first large object that ends at or after the byte. */
static uint64_t large_from(const struct ranges *ranges, uint64_t byte) {
  uint64_t low = 0, high = ranges->large.count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (ranges->large.at[middle].last < byte)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool large_insert(struct ranges *ranges, uint64_t at, uint64_t first, uint64_t last) {
  if (!vector_add(&ranges->large))
    return false;
  struct large *place = &ranges->large.at[at];
  memmove(place + 1, place, (ranges->large.count - 1 - at) * sizeof *place);
  *place = (struct large){first, last};
  return true;
}

/* The first granule that begins inside the object. */
static uint64_t first_granule(uint64_t address) {
  return (address >> GRANULE_SHIFT) + ((address & ((1 << GRANULE_SHIFT) - 1)) != 0);
}

enum ranges_result ranges_add(struct ranges *ranges, uint64_t address, uint64_t size_bytes) {
  uint64_t last = last_byte(address, size_bytes);
  uint64_t at = ranges->large.count ? large_from(ranges, address) : 0;
  if (at < ranges->large.count && ranges->large.at[at].first <= last)
    return RANGES_OVERLAP;
  uint64_t first = first_granule(address), last_granule = last >> GRANULE_SHIFT;
  if (first <= last_granule && shadow_is_taken(ranges, first, last_granule))
    return RANGES_OVERLAP;
  bool done =
      size_bytes >= LARGE_BYTES ? large_insert(ranges, at, address, last) : shadow_set(ranges, first, last_granule);
  return done ? RANGES_ADDED : RANGES_NO_MEMORY;
}

void ranges_remove(struct ranges *ranges, uint64_t address, uint64_t size_bytes) {
  uint64_t last = last_byte(address, size_bytes);
  if (size_bytes < LARGE_BYTES) {
    shadow_clear(ranges, first_granule(address), last >> GRANULE_SHIFT);
    return;
  }
  uint64_t at = large_from(ranges, address);
  struct large *place = &ranges->large.at[at];
  memmove(place, place + 1, (ranges->large.count - at - 1) * sizeof *place);
  ranges->large.count--;
}
