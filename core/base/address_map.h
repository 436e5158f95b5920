/* Which object lives at an address: a hash table from address to slot, tuned for one lookup per event.

   Not its job: what an object is. Invariants: no address is in it twice; address 0 never is. Open addressing with
   linear probing and deletion by shifting back, so that no tombstones slow down a trace of a billion frees; at most 5/8
   full. Not thread-safe. The functions are inline: at 100 million lookups a second the call would cost as much as the
   lookup. */
#ifndef CORE_BASE_ADDRESS_MAP_H
#define CORE_BASE_ADDRESS_MAP_H

#include "core/base/assert.h"

#include <stdbool.h>
#include <stdint.h>

struct address_entry {
  uint64_t address; /* 0: empty */
  uint32_t slot;
  bool in_ranges; /* for convert/history/history.c: its bytes are in the proof of ranges */
};

struct address_map {
  struct address_entry *entries;
  uint64_t mask;
  unsigned shift;
  uint64_t count, limit;
};

/* Returns false if there is no memory. */
bool address_map_init(struct address_map *map);
void address_map_free(struct address_map *map);

/* Removes all entries; the table keeps its size. */
void address_map_clear(struct address_map *map);

/* Doubles the table; false if there is no memory (the table is as it was). */
bool address_map_grow(struct address_map *map);

/* Fibonacci hashing of the whole address: addresses are multiples of 8 or 16 and often of an OS page, so low bits alone
 * won't do. */
static inline uint64_t address_map_home(const struct address_map *map, uint64_t address) {
  return address * 0x9e3779b97f4a7c15u >> map->shift;
}

/* The entry with that address, or the empty one where it belongs. */
static inline struct address_entry *address_map_find(const struct address_map *map, uint64_t address) {
  uint64_t at = address_map_home(map, address);
  while (map->entries[at].address && map->entries[at].address != address)
    at = (at + 1) & map->mask;
  return &map->entries[at];
}

/* Fills in the empty entry that address_map_find gave, if nothing was added or removed since. False if there is no
 * memory. */
static inline bool address_map_add(struct address_map *map, struct address_entry *entry, uint64_t address,
                                   uint32_t slot, bool in_ranges) {
  HT_ASSERT(address != 0 && !entry->address);
  if (map->count == map->limit) {
    if (!address_map_grow(map))
      return false;
    entry = address_map_find(map, address);
  }
  map->count++;
  *entry = (struct address_entry){address, slot, in_ranges};
  return true;
}

/* Removes an entry that address_map_find gave: each later one of the run that may move nearer to its home does. */
static inline void address_map_remove(struct address_map *map, struct address_entry *entry) {
  HT_ASSERT(map->count > 0 && entry->address);
  uint64_t hole = (uint64_t)(entry - map->entries);
  for (uint64_t at = (hole + 1) & map->mask; map->entries[at].address; at = (at + 1) & map->mask) {
    uint64_t home = address_map_home(map, map->entries[at].address);
    if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
      map->entries[hole] = map->entries[at];
      hole = at;
    }
  }
  map->entries[hole].address = 0;
  map->count--;
}

#endif
