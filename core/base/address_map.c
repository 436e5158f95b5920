/* SPDX-License-Identifier: MIT */
#include "core/base/address_map.h"

#include "core/base/os.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BITS = 10, HUGE_FROM = 1 << 18 /* entries */ };

/* bits: how many the number of a bucket has. */
static bool allocate(struct address_map *map, unsigned bits) {
  map->mask = (1ull << bits) - 1;
  map->shift = 64 - bits;
  map->limit = address_map_room(map) / 8 * 3;
  map->entries = os_map(address_map_room(map) * sizeof *map->entries, false);
  if (map->entries && address_map_room(map) >= HUGE_FROM)
    madvise(map->entries, address_map_room(map) * sizeof *map->entries,
            MADV_HUGEPAGE); /* so that they take few entries of the TLB */
  return map->entries != NULL;
}

bool address_map_init(struct address_map *map) {
  *map = (struct address_map){0};
  return allocate(map, FIRST_BITS);
}

void address_map_free(struct address_map *map) {
  os_unmap(map->entries, address_map_room(map) * sizeof *map->entries);
  *map = (struct address_map){0};
}

void address_map_clear(struct address_map *map) {
  if (map->count)
    memset(map->entries, 0, address_map_room(map) * sizeof *map->entries);
  map->count = 0;
}

bool address_map_grow(struct address_map *map) {
  struct address_map bigger = {.count = map->count};
  if (!allocate(&bigger, 64 - map->shift + 1))
    return false;
  for (uint64_t i = 0; i < address_map_room(map); i++)
    if (map->entries[i].address)
      *address_map_find(&bigger, map->entries[i].address) = map->entries[i];
  address_map_free(map);
  *map = bigger;
  return true;
}

void address_map_move_back(struct address_map *map, uint64_t number, struct address_entry *hole) {
  uint64_t at = number;
  bool full;
  do {
    at = (at + 1) & map->mask;
    struct address_entry *bucket = address_map_bucket(map, at), *moved = NULL;
    full = !address_bucket_match(bucket, 0);
    for (int i = 0; i < ADDRESS_BUCKET; i++)
      if (bucket[i].address &&
          ((at - address_map_home(map, bucket[i].address)) & map->mask) >= ((at - number) & map->mask))
        moved = &bucket[i];
    if (!moved)
      continue;
    *hole = *moved;
    moved->address = 0;
    hole = moved;
    number = at;
  } while (full);
}
