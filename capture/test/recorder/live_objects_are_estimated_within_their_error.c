/* SPDX-License-Identifier: MIT */
/* The recorder's estimates of live objects, and of which sites acquire, against the truth: exact while objects are few;
   then within 1.96 standard deviations in about 95 % of many trials, with sizes, strides and threads as programs have
   them. Seeds are fixed, so the counts repeat. */
#include "capture/recorder/processes/estimates.h"
#include "capture/test/hosts/recording.h"

#include <math.h>
#include <stdlib.h>

enum { TRIALS = 100, OBJECTS = 12000 };

static uint64_t state = 1;

static uint64_t any(uint64_t below) {
  return (split_mix_next(&state) >> 11) % below;
}

static struct live_sample sample;

static void acquire(uint64_t address, uint64_t bytes, uint32_t thread) {
  live_sample_acquire(&sample, &(struct live_acquire){address, bytes, 0, thread});
}

static void release(uint64_t address, uint32_t thread) {
  live_sample_release(&sample, address, thread, false);
}

static void expect_exactly(double objects, double bytes, const char *what) {
  struct live_estimate found = live_sample_estimate(&sample);
  CHECK(found.objects == objects && found.bytes == bytes && found.bytes_variance == 0,
        "%s: %.0f objects, %.0f bytes (variance %g) instead of %.0f, %.0f", what, found.objects, found.bytes,
        found.bytes_variance, objects, bytes);
}

static void few_objects_are_exact(void) {
  CHECK(live_sample_open(&sample) == 0, "no memory");
  for (uint64_t i = 0; i < 1000; i++)
    acquire(0x5000 + 64 * i, i, 0);
  for (uint64_t i = 0; i < 1000; i += 2)
    release(0x5000 + 64 * i, 0);
  expect_exactly(500, 500 * 500, "a thousand objects, every other one released");
  live_sample_close(&sample);
}

/* Any ring may be read first. */
static void releases_may_come_before_acquires_of_other_threads(void) {
  CHECK(live_sample_open(&sample) == 0, "no memory");
  release(0x5000, 2);
  acquire(0x5000, 100, 1);
  expect_exactly(0, 0, "released ahead by another thread");
  acquire(0x6000, 100, 1);
  acquire(0x6000, 200, 1); /* another thread's release between them arrives later */
  release(0x6000, 2);
  expect_exactly(1, 200, "acquired again before the release came");
  release(0x6000, 2);
  expect_exactly(0, 0, "and released again");
  release(0x7000, 1); /* of an object from before the recording: a thread's own acquires arrive in order */
  acquire(0x7000, 50, 1);
  expect_exactly(1, 50, "a release of what was never seen is forgotten by its own thread");
  release(0x8000, 2);
  for (int pass = 0; pass < 8; pass++)
    live_sample_pass(&sample);
  acquire(0x8000, 70, 1);
  expect_exactly(2, 120, "a release of what was never seen is forgotten after some passes");
  live_sample_close(&sample);
}

struct heap {
  uint64_t address[OBJECTS], bytes[OBJECTS];
  double truth;
};

/* Sizes from 16 bytes to 2 MiB, most of them small. */
static uint64_t some_size(void) {
  return any(200) ? 16 + any(any(20) ? 200 : 4000) : (uint64_t)8192 << any(9);
}

static void renew(struct heap *heap, uint32_t i) {
  if (heap->bytes[i])
    release(heap->address[i], 0);
  heap->truth -= (double)heap->bytes[i];
  heap->bytes[i] = some_size();
  heap->truth += (double)heap->bytes[i];
  acquire(heap->address[i], heap->bytes[i], 0);
}

/* Fills a heap whose objects are at multiples of stride (0: anywhere), and replaces many, fast enough that the sample
   adapts. */
static void live_through(struct heap *heap, uint64_t stride) {
  uint64_t base = 0x7f0000000000 + any(1 << 20) * 4096;
  *heap = (struct heap){.truth = 0};
  for (uint32_t i = 0; i < OBJECTS; i++) {
    heap->address[i] = base + (stride ? i * stride : ((uint64_t)i << 12) + any(200) * 16);
    renew(heap, i);
    if (i % 2000 == 0)
      live_sample_adapt(&sample);
  }
  for (uint32_t i = 0; i < OBJECTS; i++) {
    renew(heap, (uint32_t)any(OBJECTS));
    if (i % 2000 == 0)
      live_sample_adapt(&sample);
  }
}

static void errors_are_as_stated(uint64_t stride, const char *what) {
  static struct heap heap;
  uint32_t within = 0;
  double ratio = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    CHECK(live_sample_open(&sample) == 0, "no memory");
    live_through(&heap, stride);
    struct live_estimate found = live_sample_estimate(&sample);
    CHECK(sample.used <= LIVE_OBJECTS_MAX && sample.room <= 2 * LIVE_OBJECTS_MAX, "%u objects kept", sample.used);
    CHECK(sample.sampled < LIVE_BUCKETS, "%s: the sample holds all: nothing is tried", what);
    within += fabs(found.bytes - heap.truth) <= 1.96 * sqrt(found.bytes_variance);
    ratio += found.bytes / heap.truth / TRIALS;
    live_sample_close(&sample);
  }
  CHECK(within >= TRIALS * 9 / 10, "%s: the truth is in %u of %d intervals", what, within, TRIALS);
  CHECK(fabs(ratio - 1) < 0.02, "%s: estimates are %.3f of the truth on average", what, ratio);
}

static void large_objects_are_never_scaled(void) {
  CHECK(live_sample_open(&sample) == 0, "no memory");
  for (uint64_t i = 0; i < 4 * OBJECTS; i++)
    acquire(0x10000000 + 64 * i, 48, 0);
  for (uint64_t i = 0; i < 100; i++)
    acquire(0x900000000 + (i << 30), 1 << 29, 0);
  for (uint64_t i = 0; i < 100; i += 2)
    live_sample_release(&sample, 0x900000000 + (i << 30), 0, false);
  double bytes = 0;
  for (uint32_t i = 0; i < sample.room; i++)
    bytes += sample.objects[i].exact && sample.objects[i].live ? live_object_estimate(&sample.objects[i]).bytes : 0;
  CHECK(bytes == 50.0 * (1 << 29), "large objects are %.0f bytes", bytes);
  live_sample_close(&sample);
}

/* Two sites, one with known calls and bytes; the sample adapts as it runs. */
static void sites_are_as_stated(void) {
  uint32_t calls_within = 0, bytes_within = 0;
  double calls_ratio = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    struct site_sample sites;
    double calls = 0, bytes = 0;
    site_sample_open(&sites, any(UINT64_MAX));
    for (uint32_t i = 0; i < 4 * OBJECTS; i++) {
      uint32_t node = 1 + (any(10) == 0);
      uint64_t size = node == 2 ? 16 + any(2000) : 32;
      site_sample_acquire(&sites, node, size);
      calls += node == 2;
      bytes += node == 2 ? (double)size : 0;
      if (i % 2000 == 0)
        site_sample_adapt(&sites);
    }
    CHECK(sites.sites.count == 2 && sites.mean > 1, "%zu sites, mean %g", sites.sites.count, sites.mean);
    const struct site *site = &sites.sites.at[sites.place_of.at[2] - 1];
    calls_ratio += site->calls / calls / TRIALS;
    calls_within += fabs(site->calls - calls) <= 1.96 * sqrt(site->calls_variance);
    bytes_within += fabs(site->bytes - bytes) <= 1.96 * sqrt(site->bytes_variance);
    site_sample_close(&sites);
  }
  CHECK(calls_within >= TRIALS * 9 / 10 && bytes_within >= TRIALS * 9 / 10,
        "calls are in %u of %d intervals, bytes in %u", calls_within, TRIALS, bytes_within);
  CHECK(calls_within < TRIALS && bytes_within < TRIALS, "intervals that are never missed are too wide");
  CHECK(fabs(calls_ratio - 1) < 0.01, "estimates are %.3f of the calls on average", calls_ratio);
}

int main(void) {
  few_objects_are_exact();
  releases_may_come_before_acquires_of_other_threads();
  errors_are_as_stated(0, "anywhere");
  errors_are_as_stated(64, "64 bytes apart");
  errors_are_as_stated(144, "144 bytes apart");
  errors_are_as_stated(4096, "an OS page apart");
  large_objects_are_never_scaled();
  sites_are_as_stated();
  return 0;
}
