/* SPDX-License-Identifier: MIT */
/* Adds and removes at random, and looks up every address that it knows after each change: addresses of any hash while
   the table grows and empties again, and addresses of three neighbouring buckets, the last of the table among them, so
   that entries are far from their homes and removals move them back. */
#include "core/base/address_map.h"
#include "core/test/check.h"

enum { ADDRESSES = 48, CHANGES = 20000, MANY = 100000 };

static void crowded_buckets(void) {
  uint64_t state = 1;
  struct address_map map;
  uint64_t addresses[ADDRESSES];
  bool live[ADDRESSES] = {false};
  unsigned count = 0;
  CHECK(address_map_init(&map));
  for (uint64_t address = 16, found = 0; found < ADDRESSES; address += 16)
    if (((address_map_home(&map, address) + 2) & map.mask) < 3)
      addresses[found++] = address;
  for (int change = 0; change < CHANGES; change++) {
    int changed = (int)test_below(&state, ADDRESSES);
    struct address_entry *entry = address_map_find(&map, addresses[changed]);
    if (live[changed])
      address_map_remove(&map, entry);
    else
      CHECK(address_map_add(&map, entry, addresses[changed], (uint32_t)changed, false));
    live[changed] = !live[changed];
    count += live[changed] ? 1 : -1u;
    CHECK(map.count == count);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
      entry = address_map_find(&map, addresses[i]);
      CHECK(entry->address == (live[i] ? addresses[i] : 0));
      CHECK(!live[i] || entry->slot == i);
    }
  }
  address_map_free(&map);
}

static void growing_table(void) {
  struct address_map map;
  CHECK(address_map_init(&map));
  for (uint64_t i = 1; i <= MANY; i++) {
    CHECK(address_map_add(&map, address_map_find(&map, 32 * i), 32 * i, (uint32_t)i, i % 3 == 0));
    struct address_entry *entry = address_map_find(&map, 32 * (i / 2 + 1));
    CHECK(entry->slot == i / 2 + 1 && entry->in_ranges == ((i / 2 + 1) % 3 == 0));
  }
  for (uint64_t i = 1; i <= MANY; i += 2)
    address_map_remove(&map, address_map_find(&map, 32 * i));
  for (uint64_t i = 1; i <= MANY; i++)
    CHECK(address_map_find(&map, 32 * i)->address == (i % 2 ? 0 : 32 * i));
  CHECK(map.count == MANY / 2);
  address_map_clear(&map);
  CHECK(map.count == 0 && address_map_find(&map, 64)->address == 0);
  address_map_free(&map);
}

int main(void) {
  crowded_buckets();
  growing_table();
  return 0;
}
