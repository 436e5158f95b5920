/* SPDX-License-Identifier: MIT */
/* Whatever is acquired, referred to and released: an object is found by how it is named, and is named by its number
   only where it is among neither the newest objects nor the neighbours of a cursor. */
#include "core/base/split_mix.h"
#include "core/test/check.h"
#include "core/trace/live_list.h"

#include <string.h>

enum { ACQUIRES = 400, ROUNDS = 200 };

static bool live[ACQUIRES];

static uint32_t newer_than(const struct live_list *list, uint32_t number) {
  uint32_t newer = 0;
  for (uint32_t other = number + 1; other < list->acquired; other++)
    newer += live[other];
  return newer;
}

static void refer(struct live_list *list, uint32_t number, bool releases) {
  struct live_reference reference = live_list_name(list, number);
  uint32_t found, newer = newer_than(list, number);
  CHECK(live_list_find(list, reference, &found) && found == number, "%u is named as %u", number, found);
  if (reference.code < LIVE_CODE_CURSOR)
    CHECK(reference.code == LIVE_CODE_NEWEST + newer, "%u objects are newer", newer);
  for (struct live_reference other = {.code = LIVE_CODE_NEWEST}; other.code < LIVE_CODE_FAR; other.code++)
    CHECK(reference.code < LIVE_CODE_FAR || !live_list_find(list, other, &found) || found != number || !live[number],
          "%u is found by %ju, too", number, (uintmax_t)other.code);
  live_list_refer(list, reference.code, number, releases);
  live[number] &= !releases;
}

int main(void) {
  uint64_t random = 3;
  static struct live_links nodes[ACQUIRES + 1];
  for (int round = 0; round < ROUNDS; round++) {
    struct live_list list;
    live_list_begin(&list, nodes);
    memset(live, 0, sizeof live);
    while (list.acquired < ACQUIRES) {
      live[list.acquired] = true;
      live_list_acquire(&list);
      for (uint64_t times = test_below(&random, 3); times > 0; times--) {
        uint64_t back = test_below(&random, 2) ? test_below(&random, 12) : test_below(&random, list.acquired);
        refer(&list, (uint32_t)(list.acquired - 1 - back % list.acquired), test_below(&random, 3) > 0);
      }
    }
  }
  return 0;
}
