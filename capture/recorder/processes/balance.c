/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/balance.h"

enum { BUCKETS_LEAST = BALANCE_BUCKETS / 64, UPDATES_MOST = 1 << 18 };

void balance_open(struct balance *balance) {
  *balance = (struct balance){.buckets = address_map_init(&balance->map) ? BALANCE_BUCKETS : 0, .map = balance->map};
}

void balance_close(struct balance *balance) {
  if (balance->map.entries)
    address_map_free(&balance->map);
  balance->buckets = 0;
}

/* Halves the sample: what is no longer in it is forgotten. */
static void thin_out(struct balance *balance) {
  balance->buckets /= 2;
  balance->updates = 0;
  for (uint64_t i = 0; i < address_map_room(&balance->map);) {
    struct address_entry *entry = &balance->map.entries[i];
    if (entry->address && !balance_has(balance, entry->address))
      address_map_remove(&balance->map, entry); /* a later one may be here now */
    else
      i++;
  }
}

void balance_add(struct balance *balance, uint64_t address, int acquires) {
  while (balance->map.count == balance->map.limit && address_map_room(&balance->map) >= BALANCE_ROOM_MOST)
    thin_out(balance);
  if (++balance->updates >= UPDATES_MOST && balance->buckets > BUCKETS_LEAST)
    thin_out(balance);
  if (!balance_has(balance, address))
    return;
  struct address_entry *entry = address_map_find(&balance->map, address);
  if (!entry->address) {
    if (!address_map_add(&balance->map, entry, address, (uint32_t)acquires, false))
      balance->buckets = 0; /* without memory there is no sample */
    return;
  }
  entry->slot += (uint32_t)acquires;
  if (entry->slot == 0)
    address_map_remove(&balance->map, entry);
}

uint64_t balance_missing(const struct balance *balance) {
  uint64_t missing = 0;
  for (uint64_t i = 0; balance->buckets && i < address_map_room(&balance->map); i++) {
    int64_t acquires = balance->map.entries[i].address ? (int32_t)balance->map.entries[i].slot : 0;
    missing += (uint64_t)(acquires < 0 ? -acquires : acquires > 1 ? acquires - 1 : 0);
  }
  return missing;
}
