#include "core/base/address_map.h"

#include "core/base/os.h"

#include <string.h>

enum { FIRST_BITS = 12 };

static bool allocate(struct address_map *map, unsigned bits) {
  map->entries = os_map(sizeof *map->entries << bits, false);
  map->mask = (1ull << bits) - 1;
  map->shift = 64 - bits;
  map->limit = (1ull << bits) / 8 * 5;
  return map->entries != NULL;
}

bool address_map_init(struct address_map *map) {
  *map = (struct address_map){0};
  return allocate(map, FIRST_BITS);
}

void address_map_free(struct address_map *map) {
  os_unmap(map->entries, (map->mask + 1) * sizeof *map->entries);
  *map = (struct address_map){0};
}

void address_map_clear(struct address_map *map) {
  if (map->count)
    memset(map->entries, 0, (map->mask + 1) * sizeof *map->entries);
  map->count = 0;
}

bool address_map_grow(struct address_map *map) {
  struct address_map bigger = {.count = map->count};
  if (!allocate(&bigger, 64 - map->shift + 1))
    return false;
  for (uint64_t i = 0; i <= map->mask; i++)
    if (map->entries[i].address)
      *address_map_find(&bigger, map->entries[i].address) = map->entries[i];
  address_map_free(map);
  *map = bigger;
  return true;
}
