/* SPDX-License-Identifier: MIT */
/* Threads take slots at random, give back any live one, and end. A taken slot is live only once, and another thread
   takes from a line of slots only after the previous one has ended. */
#include "core/test/check.h"
#include "core/workload/slots.h"

#include <string.h>

enum { THREADS = 40, LIVE_THREADS = 4, CHANGES = 200000, MOST_LIVE = 3000, MOST_SLOTS = 1 << 16 };

static uint32_t live[MOST_LIVE], live_count, taker[MOST_SLOTS / SLOTS_PER_LINE];
static bool is_live[MOST_SLOTS], ended[THREADS];

static void take(struct slots *slots, uint32_t thread) {
  uint32_t slot = slots_take(slots, thread), *line_taker = &taker[slot / SLOTS_PER_LINE];
  CHECK(slot < MOST_SLOTS && slot < slots->count && !is_live[slot]);
  CHECK(*line_taker == thread || *line_taker == SLOTS_NONE || ended[*line_taker], "slot %u", slot);
  *line_taker = thread;
  is_live[slot] = true;
  live[live_count++] = slot;
}

static void give(struct slots *slots, uint32_t at, uint32_t thread) {
  uint32_t slot = live[at];
  live[at] = live[--live_count];
  is_live[slot] = false;
  slots_give(slots, slot, thread);
}

int main(void) {
  uint64_t state = 1;
  struct slots slots;
  CHECK(slots_init(&slots, THREADS));
  memset(taker, 0xff, sizeof taker); /* SLOTS_NONE */
  for (uint32_t change = 0, first = 0; change < CHANGES; change++) {
    uint32_t thread = first + (uint32_t)test_below(&state, LIVE_THREADS);
    if (live_count < MOST_LIVE && test_below(&state, MOST_LIVE) >= live_count)
      take(&slots, thread);
    else
      give(&slots, (uint32_t)test_below(&state, live_count), thread);
    if (change % (CHANGES / (THREADS - LIVE_THREADS)) == 0 && first + LIVE_THREADS < THREADS) {
      slots_end_thread(&slots, first);
      ended[first++] = true;
    }
  }
  uint32_t most = SLOTS_PER_LINE * MOST_LIVE + SLOTS_QUARANTINE;
  CHECK(slots.count < most, "%u slots for %d objects", slots.count, MOST_LIVE);
  slots_free(&slots);
  return 0;
}
