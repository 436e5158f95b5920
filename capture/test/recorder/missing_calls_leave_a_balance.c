/* SPDX-License-Identifier: MIT */
/* A legal history has no missing calls, in whatever order its threads are read, however many objects it has; releases
   of what was not handed out, and what is handed out twice, are counted, with bounded memory. */
#include "capture/recorder/processes/balance.h"
#include "capture/test/hosts/recording.h"

#include <stdlib.h>

enum { OBJECTS = 300000, ROUNDS = 5, REUSES = 3 };

static uint64_t address_of(uint64_t i) {
  return 0x7f0000000000 + i * 48;
}

static void add(struct balance *balance, uint64_t address, int acquires) {
  if (balance_has(balance, address))
    balance_add(balance, address, acquires);
}

/* Many objects, most of them released, before they are acquired where another thread's ring is read first. */
static void live_through(struct balance *balance, bool releases_first) {
  for (int round = 0; round < ROUNDS; round++)
    for (uint64_t i = 0; i < OBJECTS; i++) {
      int first = releases_first && i % 2 ? -1 : 1;
      add(balance, address_of(i), first);
      if (round + 1 < ROUNDS || i % 10)
        add(balance, address_of(i), -first);
      else if (first < 0)
        add(balance, address_of(i), 2);
    }
}

static void legal_histories_lack_nothing(void) {
  for (int releases_first = 0; releases_first < 2; releases_first++) {
    struct balance balance;
    balance_open(&balance);
    live_through(&balance, releases_first);
    CHECK(balance_missing(&balance) == 0, "%ju missing", (uintmax_t)balance_missing(&balance));
    uint64_t room = address_map_room(&balance.map);
    CHECK(room <= BALANCE_ROOM_MOST && balance.map.count <= room / 2 && balance.buckets > 0, "%ju of %ju",
          (uintmax_t)balance.map.count, (uintmax_t)room);
    balance_close(&balance);
  }
}

static void all_that_is_missing_in_a_short_history_is_counted(void) {
  struct balance balance;
  balance_open(&balance);
  for (uint64_t i = 0; i < 1000; i++)
    add(&balance, address_of(i), i % 10 ? 1 : -1); /* 100 releases of nothing */
  for (uint64_t i = 1; i < 1000; i += 10)
    for (int again = 0; again < REUSES; again++)
      add(&balance, address_of(i), 1); /* 100 objects are handed out 4 times */
  CHECK(balance_missing(&balance) == 100 + REUSES * 100, "%ju missing", (uintmax_t)balance_missing(&balance));
  balance_close(&balance);
}

static void a_share_of_what_is_missing_in_a_long_history_is_counted(void) {
  struct balance balance;
  balance_open(&balance);
  live_through(&balance, false);
  for (uint64_t i = 0; i < OBJECTS; i++)
    add(&balance, address_of(OBJECTS + i), -1);
  uint64_t missing = balance_missing(&balance);
  CHECK(missing >= OBJECTS / 100 && missing <= OBJECTS, "%ju missing", (uintmax_t)missing);
  uint64_t room = address_map_room(&balance.map);
  CHECK(balance.map.count <= room / 2, "%ju of %ju", (uintmax_t)balance.map.count, (uintmax_t)room);
  balance_close(&balance);
}

int main(void) {
  legal_histories_lack_nothing();
  all_that_is_missing_in_a_short_history_is_counted();
  a_share_of_what_is_missing_in_a_long_history_is_counted();
  return 0;
}
