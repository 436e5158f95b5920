/* SPDX-License-Identifier: MIT */
/* Random events for the tests of trace/: any legal call byte, addresses that repeat, events with and without stamps.
   They need not be a legal history: the format can hold any event. */
#pragma once

#include "core/test/check.h"
#include "core/trace/event.h"

struct generator {
  uint64_t random;
  uint64_t stamp;
  uint64_t pool[512]; /* addresses seen */
  bool aligned;       /* all addresses multiples of 16 */
  uint32_t stamp_every;
  bool started;
  uint32_t stack_nodes; /* events have latency, slack and one of this many stacks; 0: none of the three */
};

static inline uint64_t generate_address(struct generator *g) {
  uint64_t *place = &g->pool[test_below(&g->random, 512)];
  if (*place == 0 || test_below(&g->random, 16) == 0)
    *place = (split_mix_next(&g->random) >> (17 + test_below(&g->random, 20))) | 1u << 20;
  return g->aligned ? *place & ~(uint64_t)15 : *place;
}

static inline uint64_t generate_stamp(struct generator *g) {
  if (g->started && test_below(&g->random, g->stamp_every) != 0)
    return 0;
  g->started = true;
  g->stamp += 1 + test_below(&g->random, 5000);
  return g->stamp;
}

static inline struct trace_event generate_event(struct generator *g) {
  struct trace_event event = {0};
  do
    event.call = (uint8_t)test_below(&g->random, 256);
  while (!trace_call_is_legal(event.call) ||
         ((event.call & (CALL_NULL_IN | CALL_NULL_OUT)) && test_below(&g->random, 8)));
  const struct call_info *info = &call_table[event.call & CALL_ID_MASK];
  if (info->has_size)
    event.size_bytes = split_mix_next(&g->random) >> test_below(&g->random, 65) % 64;
  if (info->param != NONE)
    event.param = split_mix_next(&g->random) >> (32 + test_below(&g->random, 32));
  if (trace_event_takes(&event))
    event.released = generate_address(g);
  if (trace_event_acquires(&event))
    event.acquired = generate_address(g);
  event.release_stamp = generate_stamp(g);
  event.acquire_stamp = event.release_stamp;
  if (trace_event_steps(&event) == 2)
    event.acquire_stamp = generate_stamp(g);
  if (trace_event_releases(&event) && test_below(&g->random, 20) == 0) {
    event.touched_os_pages = 33 + (uint32_t)test_below(&g->random, 1000);
    event.touched_parts = (uint32_t)test_below(&g->random, 3) * 0x50005555;
  }
  if (g->stack_nodes == 0)
    return event;
  if (test_below(&g->random, 4))
    event.latency = 1 + (split_mix_next(&g->random) >> 1 >> test_below(&g->random, 63));
  if (trace_event_acquires(&event) && test_below(&g->random, 4))
    event.slack_bytes = trace_event_slack(100, 99 + (split_mix_next(&g->random) >> (16 + test_below(&g->random, 48))));
  event.stack = (uint32_t)test_below(&g->random, g->stack_nodes + 1);
  return event;
}
