/* SPDX-License-Identifier: MIT */
/* Between two readings the observer sleeps, whether it measures memory or only time: an observer that spins takes a
   processor from the program that it measures. */
#include "core/base/os.h"
#include "core/test/check.h"
#include "observe/observe.h"

#include <unistd.h>

static const uint64_t INTERVAL_NS = 50000000;

int main(void) {
  static struct observation all;
  for (int memory = 0; memory < 2; memory++) {
    all = (struct observation){.memory = memory, .interval_ns = INTERVAL_NS};
    observe_begin(&all, -1, getpid()); /* no listener: it observes this process itself */
    for (int sample = 0; sample < 3; sample++) {
      uint64_t before = os_monotonic_ns(), next = observe_sample(&all);
      CHECK(all.count == 1 && all.images[0].live, "the process is not seen");
      CHECK(sample > 0 || next >= before + INTERVAL_NS, "memory %d: the next sample is due at once", memory);
      CHECK(next == all.images[0].next_row_ns, "memory %d, sample %d: not when a row is due", memory, sample);
    }
    observe_finish(&all);
  }
  return 0;
}
