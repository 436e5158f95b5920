/* SPDX-License-Identifier: MIT */
/* How often a process is sampled: ten times as often in its first second, by the set period afterwards, and less often
   where samples are expensive, so that all processes together cost at most 5 % of a core, then 1 %. The clock is the
   test's. */
#include "capture/recorder/processes/proc_entries.h"
#include "capture/test/hosts/recording.h"

static const uint64_t SECOND_NS = 1000000000u, STEP_NS = 100000;

/* The number of samples in the seconds from begin to end, each costing cost_ns. */
static uint32_t looks(uint64_t begin, uint64_t end, uint64_t base_ns, uint64_t cost_ns, uint32_t processes) {
  struct sampler sampler = {.cost_ns = cost_ns};
  uint32_t count = 0;
  for (uint64_t now_ns = 0; now_ns < end * SECOND_NS; now_ns += STEP_NS) {
    if (!sampler_is_due(&sampler, now_ns))
      continue;
    sampler_plan(&sampler, now_ns, base_ns, processes);
    count += now_ns >= begin * SECOND_NS;
  }
  return count;
}

static void expect(uint32_t found, uint32_t expected, const char *what) {
  CHECK(found == expected, "%s: %u looks instead of %u", what, found, expected);
}

int main(void) {
  const uint64_t ms = 1000000;
  expect(looks(0, 1, 10 * ms, 0, 1), 1000, "first second, every 10 ms");
  expect(looks(1, 3, 10 * ms, 0, 1), 200, "two more seconds, every 10 ms");
  expect(looks(0, 1, 1000 * ms, 0, 1), 10, "first second, every second");
  expect(looks(1, 11, 1000 * ms, 0, 1), 10, "ten more seconds, every second");
  expect(looks(0, 1, 10 * ms, ms, 1), 50, "first second, a look costs 1 ms: 5 % of it");
  expect(looks(1, 11, 10 * ms, ms, 1), 100, "ten more seconds, a look costs 1 ms: 1 % of them");
  expect(looks(0, 1, 10 * ms, ms, 5), 10, "first second of five processes");
  expect(looks(1, 11, 10 * ms, ms, 5), 20, "ten more seconds of five processes");
  return 0;
}
