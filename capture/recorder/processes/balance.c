/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/balance.h"

#include <stdlib.h>

enum { ROOM_FIRST = 1 << 10, BUCKETS_LEAST = BALANCE_BUCKETS / 64, UPDATES_MOST = 1 << 18 };

void balance_open(struct balance *balance) {
  *balance = (struct balance){.entries = calloc(ROOM_FIRST, sizeof *balance->entries)};
  if (balance->entries) {
    balance->buckets = BALANCE_BUCKETS;
    balance->room = ROOM_FIRST;
  }
}

void balance_close(struct balance *balance) {
  free(balance->entries);
  *balance = (struct balance){.entries = NULL};
}

static uint32_t place_of(const struct balance *balance, uint64_t address) {
  return (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 32) & (balance->room - 1);
}

/* The address's place, or the free one where it would be. */
static struct balance_entry *find(const struct balance *balance, uint64_t address) {
  uint32_t place = place_of(balance, address);
  while (balance->entries[place].acquires && balance->entries[place].address != address)
    place = (place + 1) & (balance->room - 1);
  return &balance->entries[place];
}

/* Later entries move to where they are found. */
static void free_place(struct balance *balance, uint32_t hole) {
  uint32_t mask = balance->room - 1;
  for (uint32_t at = (hole + 1) & mask; balance->entries[at].acquires; at = (at + 1) & mask) {
    uint32_t home = place_of(balance, balance->entries[at].address);
    if (((at - home) & mask) < ((at - hole) & mask))
      continue;
    balance->entries[hole] = balance->entries[at];
    hole = at;
  }
  balance->entries[hole].acquires = 0;
  balance->used--;
}

/* Keeps the entries of the sample's addresses in so many places. Without memory, the sample becomes empty. */
static void renew(struct balance *balance, uint32_t room) {
  struct balance after = {.entries = calloc(room, sizeof *after.entries)};
  if (after.entries) {
    after.buckets = balance->buckets;
    after.room = room;
  }
  for (uint32_t i = 0; after.buckets && i < balance->room; i++)
    if (balance->entries[i].acquires && balance_has(&after, balance->entries[i].address)) {
      *find(&after, balance->entries[i].address) = balance->entries[i];
      after.used++;
    }
  free(balance->entries);
  *balance = after;
}

void balance_add(struct balance *balance, uint64_t address, int acquires) {
  struct balance_entry *entry = find(balance, address);
  balance->used += entry->acquires == 0;
  entry->address = address;
  entry->acquires += acquires;
  if (entry->acquires == 0)
    free_place(balance, (uint32_t)(entry - balance->entries));
  bool is_full = balance->used > balance->room / 2, may_grow = balance->room < BALANCE_ROOM_MOST;
  if (is_full && may_grow) {
    uint32_t updates = balance->updates;
    renew(balance, 2 * balance->room);
    balance->updates = updates;
  } else if (is_full || (++balance->updates >= UPDATES_MOST && balance->buckets > BUCKETS_LEAST)) {
    balance->buckets /= 2;
    renew(balance, balance->room);
  }
}

uint64_t balance_missing(const struct balance *balance) {
  uint64_t missing = 0;
  for (uint32_t i = 0; i < balance->room; i++) {
    int64_t acquires = balance->entries[i].acquires;
    missing += (uint64_t)(acquires < 0 ? -acquires : acquires > 1 ? acquires - 1 : 0);
  }
  return missing;
}
