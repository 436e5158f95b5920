/* SPDX-License-Identifier: MIT */
/* Which object lives at an address: a hash table from address to slot, tuned for one lookup per event.

   Invariants: no address is in it twice; address 0 never is; an entry is in the bucket of its hash, or in a later one
   if all buckets up to that one are full. A bucket is a cache line. Nearly every lookup reads one whole bucket and no
   other: stopping at the right entry would cost more, as a processor can't predict which one that is. Deletion moves
   entries back, so that no tombstones slow down a trace of a billion frees. The table is at most 3/8 full: then one
   bucket in 15 is full, with 5/8 one in four. Not thread-safe. The functions are inline: at 100 million lookups a
   second a call would cost as much as the lookup. */
#pragma once

#include "core/base/assert.h"

#include <stdbool.h>
#include <stdint.h>

struct address_entry {
  uint64_t address; /* 0: empty */
  uint32_t slot;
  bool in_ranges; /* for convert/history/history.c: its bytes are in the proof of ranges */
};

enum { ADDRESS_BUCKET = 4 }; /* entries */

struct address_map {
  struct address_entry *entries; /* the first at the start of a cache line */
  uint64_t mask;                 /* of the number of a bucket */
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

/* How many entries there are, empty ones included: for loops over all entries. */
static inline uint64_t address_map_room(const struct address_map *map) {
  return (map->mask + 1) * ADDRESS_BUCKET;
}

/* The number of an address's bucket by Fibonacci hashing of the whole address: addresses are multiples of 8 or 16 and
   often of an OS page, so low bits alone are not enough. */
static inline uint64_t address_map_home(const struct address_map *map, uint64_t address) {
  return address * 0x9e3779b97f4a7c15u >> map->shift;
}

static inline struct address_entry *address_map_bucket(const struct address_map *map, uint64_t number) {
  return &map->entries[number * ADDRESS_BUCKET];
}

/* Returns 1 if they are equal, else 0, without a branch, which gcc would otherwise make of joined comparisons: which
   entry matches is practically random. */
static inline unsigned address_equal(uint64_t a, uint64_t b) {
  unsigned equal = a == b;
  __asm__("" : "+r"(equal));
  return equal;
}

/* Which entries of the bucket have that address: bit i for entry i. */
static inline unsigned address_bucket_match(const struct address_entry *bucket, uint64_t address) {
  return address_equal(bucket[0].address, address) | address_equal(bucket[1].address, address) << 1 |
         address_equal(bucket[2].address, address) << 2 | address_equal(bucket[3].address, address) << 3;
}

/* The entry with that address, or the empty one where it belongs. */
static inline struct address_entry *address_map_find(const struct address_map *map, uint64_t address) {
  for (uint64_t number = address_map_home(map, address);; number = (number + 1) & map->mask) {
    struct address_entry *bucket = address_map_bucket(map, number);
    unsigned match = address_bucket_match(bucket, address);
    if (match || (match = address_bucket_match(bucket, 0)))
      return &bucket[__builtin_ctz(match)];
  }
}

/* Fills in the empty entry that address_map_find returned, if nothing was added or removed since. False if there is no
   memory. */
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

/* The hole is in a bucket that was full: moves back the later entries that can now be nearer to their homes. */
void address_map_move_back(struct address_map *map, uint64_t number, struct address_entry *hole);

/* Removes an entry that address_map_find returned. */
static inline void address_map_remove(struct address_map *map, struct address_entry *entry) {
  HT_ASSERT(map->count > 0 && entry->address);
  uint64_t number = (uint64_t)(entry - map->entries) / ADDRESS_BUCKET;
  bool was_full = !address_bucket_match(address_map_bucket(map, number), 0);
  entry->address = 0;
  map->count--;
  if (__builtin_expect(was_full, 0))
    address_map_move_back(map, number, entry);
}
