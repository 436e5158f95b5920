/* SPDX-License-Identifier: MIT */
/* Random values of many magnitudes: every percentile of the histogram is within 1/32 of the one found by sorting. */
#include "core/test/usual.h"
#include "replay/passes/time/timing.h"

enum { VALUES = 20001, ROUNDS = 20 };

static uint64_t values[VALUES];
static struct histogram histogram, half;

static int compare(const void *a, const void *b) {
  uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return left < right ? -1 : left > right;
}

static int check_bounds(void) {
  for (unsigned bucket = 0; bucket + 1 < HISTOGRAM_BUCKETS; bucket++) {
    uint64_t lower = histogram_lower(bucket), next = histogram_lower(bucket + 1);
    if (histogram_bucket(lower) != bucket || histogram_bucket(next - 1) != bucket || (next - lower) * 32 > lower + 64) {
      printf("bucket %u holds %" PRIu64 " .. %" PRIu64 "\n", bucket, lower, next - 1);
      return 1;
    }
  }
  return histogram_bucket(UINT64_MAX) != HISTOGRAM_BUCKETS - 1;
}

int main(void) {
  static const double shares[] = {0, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
  uint64_t random = 1;
  if (check_bounds() != 0)
    return 1;
  for (int round = 0; round < ROUNDS; round++) {
    memset(&histogram, 0, sizeof histogram);
    memset(&half, 0, sizeof half);
    for (int index = 0; index < VALUES; index++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      values[index] = (random >> 24) >> ((random >> 10) % 40);
      histogram_add(index % 2 ? &half : &histogram, values[index]);
    }
    histogram_merge(&histogram, &half);
    qsort(values, VALUES, sizeof *values, compare);
    for (size_t index = 0; index < sizeof shares / sizeof *shares; index++) {
      uint64_t rank = (uint64_t)(shares[index] * VALUES);
      uint64_t exact = values[rank < VALUES ? rank : VALUES - 1],
               found = histogram_percentile(&histogram, shares[index]);
      uint64_t off = found > exact ? found - exact : exact - found;
      if (off * 32 > exact) {
        printf("percentile %g: exact %" PRIu64 ", histogram %" PRIu64 "\n", shares[index], exact, found);
        return 1;
      }
    }
  }
  return 0;
}
