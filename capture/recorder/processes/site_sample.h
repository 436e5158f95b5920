/* SPDX-License-Identifier: MIT */
/* By which stacks a process acquires, how often and how many bytes, from a sample of its acquires.

   Job: draw acquires, add up what they stand for, by node of the host's tree of stacks. Not its job: names of nodes. An
   acquire is drawn with a chance that grows with its request, and is weighted by the inverse of that chance (Horvitz
   and Thompson), so the sums have no bias and known variances. Invariants: memory is bounded: acquires of the sites
   beyond SITES_MAX are in others. In the recorder; allocates with malloc; one thread. */
#pragma once

#include <stdint.h>

enum { SITES_MAX = 1 << 14, SITE_CALL_BYTES = 128 };

/* Sums since the recording's start. */
struct site {
  uint32_t node; /* 0: the place is free */
  double calls, bytes;
  double calls_variance, bytes_variance;
  double recent; /* bytes and calls, as of recent_ns; halves in a few seconds */
  uint64_t recent_ns;
};

/* All zero but for the random state: empty. */
struct site_sample {
  int64_t left; /* until the next draw; bytes and calls, where a call counts as SITE_CALL_BYTES */
  double mean;  /* between two draws */
  uint64_t random;
  uint32_t drawn;     /* since the sample was last adapted */
  struct site *sites; /* open hash */
  uint32_t room, used;
  struct site others;
};

void site_sample_open(struct site_sample *sample, uint64_t seed);
void site_sample_close(struct site_sample *sample);

/* Called when left has fallen below 0, for the acquire that caused it. */
void site_sample_draw(struct site_sample *sample, uint32_t node, uint64_t request_bytes);

static inline void site_sample_acquire(struct site_sample *sample, uint32_t node, uint64_t request_bytes) {
  uint64_t weight = request_bytes < INT64_MAX / 4 ? request_bytes + SITE_CALL_BYTES : INT64_MAX / 4;
  sample->left -= (int64_t)weight;
  if (__builtin_expect(sample->left < 0, 0))
    site_sample_draw(sample, node, request_bytes);
}

/* Called about every 10 ms: draws fewer where it costs too much, more where it costs little. */
void site_sample_adapt(struct site_sample *sample);

/* The site's recent activity as of now. */
double site_recent(const struct site *site, uint64_t now_ns);
