#include "replay/counter.h"

#include "replay/histogram.h"
#include "trace/os.h"

enum { PAIRS = 20001 };

uint64_t counter_overhead(void) {
  static struct histogram pairs;
  /* The first half warms caches and clock up. */
  for (int pair = -PAIRS; pair < PAIRS; pair++) {
    uint64_t begin = os_stamp();
    uint64_t cycles = os_stamp() - begin;
    if (pair >= 0)
      histogram_add(&pairs, cycles);
  }
  return histogram_percentile(&pairs, 0.5);
}
