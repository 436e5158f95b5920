/* SPDX-License-Identifier: MIT */
#include "capture/recorder/processes/site_sample.h"

#include "core/base/os.h"

#include <math.h>
#include <stdlib.h>

enum { ROOM_FIRST = 256, DRAWN_FEW = 32, DRAWN_MANY = 256 };

static const double RECENT_NS = 5e9, MEAN_LEAST = 1, MEAN_MOST = 1e12;

/* xorshift64*, from 0 (not included) to 1. */
static double random_share(struct site_sample *sample) {
  uint64_t x = sample->random;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  sample->random = x;
  return ((double)(x * 0x2545f4914f6cdd1du >> 11) + 1) / 9007199254740993.0;
}

static void plan(struct site_sample *sample) {
  sample->left = (int64_t)(-log(random_share(sample)) * sample->mean);
}

void site_sample_open(struct site_sample *sample, uint64_t seed) {
  *sample = (struct site_sample){.mean = MEAN_LEAST, .random = seed | 1};
}

void site_sample_close(struct site_sample *sample) {
  free(sample->sites);
  *sample = (struct site_sample){.left = INT64_MAX};
}

static struct site *find(struct site *sites, uint32_t room, uint32_t node) {
  uint32_t place = (node * 0x9e3779b1u >> 7) & (room - 1);
  while (sites[place].node && sites[place].node != node)
    place = (place + 1) & (room - 1);
  return &sites[place];
}

static void enlarge(struct site_sample *sample) {
  uint32_t room = sample->room ? 2 * sample->room : ROOM_FIRST;
  struct site *sites = calloc(room, sizeof *sites);
  if (!sites)
    return;
  for (uint32_t i = 0; i < sample->room; i++)
    if (sample->sites[i].node)
      *find(sites, room, sample->sites[i].node) = sample->sites[i];
  free(sample->sites);
  sample->sites = sites;
  sample->room = room;
}

static struct site *site_of(struct site_sample *sample, uint32_t node) {
  if (2 * sample->used >= sample->room && sample->used < SITES_MAX)
    enlarge(sample);
  struct site *site = sample->room ? find(sample->sites, sample->room, node) : NULL;
  if (!site || (!site->node && (sample->used >= SITES_MAX || 2 * sample->used >= sample->room)))
    return &sample->others;
  sample->used += site->node == 0;
  site->node = node;
  return site;
}

double site_recent(const struct site *site, uint64_t now_ns) {
  return now_ns > site->recent_ns ? site->recent * exp(-(double)(now_ns - site->recent_ns) / RECENT_NS) : site->recent;
}

void site_sample_draw(struct site_sample *sample, uint32_t node, uint64_t request_bytes) {
  double bytes = (double)request_bytes;
  double chance = -expm1(-(bytes + SITE_CALL_BYTES) / sample->mean), one = (1 - chance) / (chance * chance);
  struct site *site = site_of(sample, node);
  uint64_t now_ns = os_monotonic_ns();
  site->calls += 1 / chance;
  site->bytes += bytes / chance;
  site->calls_variance += one;
  site->bytes_variance += bytes * bytes * one;
  site->recent = site_recent(site, now_ns) + (bytes + SITE_CALL_BYTES) / chance;
  site->recent_ns = now_ns;
  sample->drawn++;
  plan(sample);
}

void site_sample_adapt(struct site_sample *sample) {
  if (sample->drawn > DRAWN_MANY && sample->mean < MEAN_MOST)
    sample->mean *= 2;
  else if (sample->drawn < DRAWN_FEW && sample->mean > MEAN_LEAST)
    sample->mean /= 2;
  if (sample->drawn < DRAWN_FEW || sample->drawn > DRAWN_MANY)
    plan(sample); /* drawing is memoryless, so a fresh start has no bias */
  sample->drawn = 0;
}
