/* SPDX-License-Identifier: MIT */
/* A legal history has no missing calls, in whatever order its threads are read, however many objects it has; releases
   of what was not handed out, and what is handed out twice, are counted, also where both have the same number, with
   bounded memory. */
#include "capture/recorder/processes/balance.h"
#include "capture/test/hosts/recording.h"
#include "core/test/failing_memory.h"

#include <stdlib.h>

enum { OBJECTS = 300000, ROUNDS = 5, REUSES = 3 };

static long left = -1; /* requests until all fail; -1: none does */

static bool fails(void) {
  left -= left > 0;
  return left == 0;
}

static uint64_t address_of(uint64_t i) {
  return 0x7f0000000000 + i * 48;
}

static void add(struct balance *balance, uint64_t address, bool acquires, uint64_t stamp) {
  if (balance_has(balance, address))
    balance_add(balance, address, acquires, stamp);
}

static void check_missing(struct balance *balance, uint64_t expected) {
  uint64_t missing = balance_missing(balance);
  CHECK(missing == expected, "%ju missing, expected %ju", (uintmax_t)missing, (uintmax_t)expected);
  balance_close(balance);
}

/* Many objects, most of them released, before they are acquired where another thread's ring is read first: in the same
   pass, or in the pass before. */
static void live_through(struct balance *balance, bool releases_first, uint64_t objects_in_pass) {
  uint64_t stamp = 1;
  for (int round = 0; round < ROUNDS; round++)
    for (uint64_t i = 0; i < OBJECTS; i++, stamp += 2) {
      bool first = releases_first && i % 2, released = round + 1 < ROUNDS || i % 10;
      if (!first || released)
        add(balance, address_of(i), !first, stamp + first);
      if (i % objects_in_pass == 0)
        balance_pass(balance);
      if (first || released)
        add(balance, address_of(i), first, stamp + !first);
    }
}

static void legal_histories_lack_nothing(void) {
  for (int releases_first = 0; releases_first < 2; releases_first++)
    for (uint64_t objects = 2; objects <= 2000; objects *= 1000) {
      struct balance balance;
      balance_open(&balance, false);
      live_through(&balance, releases_first, objects);
      uint64_t room = address_map_room(&balance.map);
      CHECK(room <= BALANCE_ROOM_MOST && balance.map.count <= room / 2 && balance.buckets > 0, "%ju of %ju",
            (uintmax_t)balance.map.count, (uintmax_t)room);
      check_missing(&balance, 0);
    }
}

/* What a ring shows only in the second pass, with a stamp that is older than those of the first. */
static void a_step_that_is_shown_late_comes_in_its_place(void) {
  struct balance balance;
  balance_open(&balance, false);
  add(&balance, address_of(0), true, 10);
  balance_pass(&balance);
  add(&balance, address_of(0), true, 30);
  add(&balance, address_of(1), true, 30);
  balance_pass(&balance);
  add(&balance, address_of(0), false, 20);
  balance_pass(&balance);
  check_missing(&balance, 0);
}

/* As they inherit one stamp. */
static void steps_of_one_thread_keep_their_order_however_many_wait(void) {
  struct balance balance;
  balance_open(&balance, false);
  for (uint64_t i = 0; i < 2 * BALANCE_STEPS_MOST; i++)
    add(&balance, address_of(i / 2 % 1000), i % 2 == 0, 7);
  check_missing(&balance, 0);
}

static void all_that_is_missing_in_a_short_history_is_counted(void) {
  struct balance balance;
  balance_open(&balance, false);
  for (uint64_t i = 0; i < 1000; i++)
    add(&balance, address_of(i), i % 10, i); /* 100 releases of nothing */
  for (uint64_t i = 1; i < 1000; i += 10)
    for (int again = 0; again < REUSES; again++)
      add(&balance, address_of(i), true, 1000 + i); /* 100 objects are handed out 4 times */
  check_missing(&balance, 100 + REUSES * 100);
}

static void what_is_missing_on_both_sides_is_counted(void) {
  for (int late = 0; late < 2; late++) {
    struct balance balance;
    balance_open(&balance, late);
    const bool acquires[] = {true, true, false, false, true, false}; /* a release is missing, then an acquire */
    for (uint64_t i = 0; i < sizeof acquires; i++) {
      add(&balance, address_of(0), acquires[i], i);
      balance_pass(&balance);
    }
    add(&balance, address_of(1), false, 10); /* of an object from before, where the recording began late */
    check_missing(&balance, 3 - (uint64_t)late);
  }
}

static void a_share_of_what_is_missing_in_a_long_history_is_counted(void) {
  struct balance balance;
  balance_open(&balance, false);
  live_through(&balance, false, 2000);
  for (uint64_t i = 0; i < OBJECTS; i++)
    add(&balance, address_of(OBJECTS + i), false, UINT64_MAX);
  uint64_t missing = balance_missing(&balance);
  CHECK(missing >= OBJECTS / 100 && missing <= OBJECTS, "%ju missing", (uintmax_t)missing);
  uint64_t room = address_map_room(&balance.map);
  CHECK(balance.map.count <= room / 2, "%ju of %ju", (uintmax_t)balance.map.count, (uintmax_t)room);
  balance_close(&balance);
}

static void without_memory_nothing_is_said(void) {
  for (long number = 0; number < 9; number++) {
    struct balance balance;
    left = number;
    balance_open(&balance, false);
    for (uint64_t i = 0; i < 1000; i++)
      add(&balance, address_of(i), true, i);
    balance_pass(&balance);
    for (uint64_t i = 0; i < 1000; i++)
      add(&balance, address_of(i), false, 1000 + i);
    left = -1;
    check_missing(&balance, 0);
  }
}

int main(void) {
  legal_histories_lack_nothing();
  a_step_that_is_shown_late_comes_in_its_place();
  steps_of_one_thread_keep_their_order_however_many_wait();
  all_that_is_missing_in_a_short_history_is_counted();
  what_is_missing_on_both_sides_is_counted();
  a_share_of_what_is_missing_in_a_long_history_is_counted();
  without_memory_nothing_is_said();
  return 0;
}
