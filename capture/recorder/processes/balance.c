/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/balance.h"

enum { BUCKETS_LEAST = BALANCE_BUCKETS / 64, UPDATES_MOST = 1 << 18 };

void balance_open(struct balance *balance, bool late) {
  *balance = (struct balance){.late = late};
  balance->buckets = address_map_init(&balance->map) ? BALANCE_BUCKETS : 0;
}

void balance_close(struct balance *balance) {
  if (balance->map.entries)
    address_map_free(&balance->map);
  free(balance->steps.at);
  *balance = (struct balance){.buckets = 0};
}

/* Halves the sample: what is no longer in it is forgotten; steps, when they are taken. */
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

static void drop_steps(struct balance *balance) {
  size_t kept = 0;
  for (size_t i = 0; i < balance->steps.count; i++)
    if (balance_has(balance, balance->steps.at[i].address)) {
      balance->steps.at[kept] = balance->steps.at[i];
      balance->steps.at[kept].order = (uint32_t)kept; /* below those of steps to come */
      kept++;
    }
  balance->steps.count = kept;
}

void balance_add(struct balance *balance, uint64_t address, bool acquires, uint64_t stamp) {
  while (balance->steps.count >= BALANCE_STEPS_MOST) {
    thin_out(balance);
    drop_steps(balance);
  }
  if (++balance->updates >= UPDATES_MOST && balance->buckets > BUCKETS_LEAST)
    thin_out(balance);
  if (!balance_has(balance, address))
    return;
  struct balance_step *step = vector_add(&balance->steps);
  if (!step) {
    balance->buckets = 0;
    return;
  }
  *step = (struct balance_step){stamp, address, (uint32_t)balance->steps.count, acquires};
  balance->newest = stamp > balance->newest ? stamp : balance->newest;
}

static void take(struct balance *balance, const struct balance_step *step) {
  while (balance->map.count == balance->map.limit && address_map_room(&balance->map) >= BALANCE_ROOM_MOST)
    thin_out(balance);
  if (!balance_has(balance, step->address))
    return;
  struct address_entry *entry = address_map_find(&balance->map, step->address);
  bool known = entry->address, live = known && entry->slot;
  if (step->acquires ? live : known ? !live : !balance->late)
    balance->missing++;
  if (known && !step->acquires && !balance->late)
    address_map_remove(&balance->map, entry);
  else if (known)
    entry->slot = step->acquires;
  else if ((step->acquires || balance->late) &&
           !address_map_add(&balance->map, entry, step->address, step->acquires, false))
    balance->buckets = 0; /* without memory there is no sample */
}

static int by_stamp(const void *left, const void *right) {
  const struct balance_step *a = left, *b = right;
  int stamp = COMPARE(a->stamp, b->stamp);
  return stamp ? stamp : COMPARE(a->order, b->order);
}

/* Takes the waiting steps up to that stamp. */
static void settle(struct balance *balance, uint64_t stamp) {
  size_t taken = 0, count = balance->steps.count;
  vector_sort(&balance->steps, by_stamp);
  for (; taken < count && balance->steps.at[taken].stamp <= stamp; taken++)
    take(balance, &balance->steps.at[taken]);
  balance->steps.count = count - taken;
  for (size_t i = 0; i < balance->steps.count; i++) {
    balance->steps.at[i] = balance->steps.at[taken + i];
    balance->steps.at[i].order = (uint32_t)i;
  }
}

void balance_pass(struct balance *balance) {
  settle(balance, balance->settled);
  balance->settled = balance->newest;
}

uint64_t balance_missing(struct balance *balance) {
  settle(balance, UINT64_MAX);
  return balance->missing;
}
