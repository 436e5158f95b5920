#include "replay/counter.h"

#include "replay/histogram.h"
#include "replay/null_allocator.h"
#include "trace/os.h"

#include <stddef.h>

enum { PAIRS = 20001 };

/* As an allocator's entry point is called: through a pointer that the compiler knows nothing of. */
static void (*volatile empty_call)(void *object) = null_free;

double counter_overhead(void) {
  static struct histogram pairs;
  static uint32_t advances[PAIRS];
  /* The first half warms caches and clock up. */
  for (int pair = -PAIRS; pair < PAIRS; pair++) {
    void (*call)(void *object) = empty_call;
    uint64_t begin = os_stamp();
    call(NULL);
    uint64_t cycles = os_stamp() - begin;
    if (pair < 0)
      continue;
    histogram_add(&pairs, cycles);
    advances[pair] = cycles < UINT32_MAX ? (uint32_t)cycles : UINT32_MAX;
  }
  uint64_t limit = 2 * histogram_percentile(&pairs, 0.5), sum = 0, count = 0;
  for (int pair = 0; pair < PAIRS; pair++) {
    if (advances[pair] <= limit) {
      sum += advances[pair];
      count++;
    }
  }
  return count ? (double)sum / (double)count : 0;
}
