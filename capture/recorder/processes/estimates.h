/* SPDX-License-Identifier: MIT */
/* Estimates from samples: which objects of a process live now (live_sample), and by which stacks it acquires, how often
   and how many bytes (site_sample).

   live_sample: how many objects, how many bytes, of which stacks, from a sample of addresses.

   Job: decide which addresses are in the sample, keep the objects there, estimate. Not its job: where calls come from,
   printing. Addresses are hashed into LIVE_BUCKETS buckets; those of the lowest buckets are in the sample: all buckets
   as long as objects are few and change slowly. Objects of exact_bytes or more are in the sample at any address, so
   that only small objects contribute to the error. A thread's calls arrive in order, but a release may arrive before
   the acquire by another thread: it is kept for that acquire, for a few passes. Invariants: memory is bounded; an
   object's chance is the lowest chance since its acquire; the host's data are not trusted, only counted. Objects whose
   release is not recorded (paused, dropped) count as live until their address is used again.

   site_sample: draw acquires, add up what they stand for, by node of the host's tree of stacks. An acquire is drawn
   with a chance that grows with its request, and is weighted by the inverse of that chance (Horvitz and Thompson), so
   the sums have no bias and known variances. Invariant: memory is bounded: acquires of the sites beyond SITES_MAX are
   in others. In the recorder; allocates with malloc; one thread. */
#pragma once

#include "core/base/vector.h"

#include <stdbool.h>
#include <stdint.h>

enum { LIVE_BUCKETS = 1 << 14, LIVE_OBJECTS_MAX = 1 << 13, LIVE_EXACT_OBJECTS_MAX = 1 << 9 };

struct live_object {
  uint64_t address; /* 0: the place is free */
  uint64_t bytes;   /* request */
  uint32_t node;    /* of the host's tree of stacks; 0: not known */
  uint32_t chance;  /* that the object is in the sample, out of LIVE_BUCKETS */
  uint32_t pass;    /* the last pass in which ahead or behind changed */
  uint32_t thread;  /* the thread that released ahead */
  uint16_t ahead;   /* releases of objects whose acquire is still to come */
  uint16_t behind;  /* releases to come of earlier objects at the address */
  bool live, exact; /* exact: it is in the sample for its size */
};

struct live_sample {
  uint8_t flags[LIVE_BUCKETS]; /* not 0: releases there must be passed in. LIVE_SAMPLED, and count of exact objects */
  uint32_t sampled;            /* buckets below this are in the sample */
  uint64_t exact_bytes;
  struct live_object *objects; /* open hash */
  uint32_t room, used, exact;  /* places; those in use; those of exact objects */
  uint32_t pass, updates;      /* updates: since the sample was last adapted */
  double bytes, peak_bytes;    /* the estimate, kept up with each update, and its maximum */
  bool thinned;                /* objects have been left out: the peak is an estimate */
};

enum { LIVE_SAMPLED = 128 };

struct live_estimate {
  double bytes, objects;
  double bytes_variance, objects_variance; /* 0: exact, except for calls that were not recorded */
};

/* Returns 0, or -1: no memory; the sample then stays empty, and may be used. */
int live_sample_open(struct live_sample *sample);
void live_sample_close(struct live_sample *sample);

/* Multiples of the golden ratio are spread evenly, whatever the stride; only the address's lower half matters. */
static inline uint32_t live_bucket(uint64_t address) {
  return (uint32_t)address * 0x9e3779b1u >> 18;
}

/* Must calls that have this address be passed in? */
static inline bool live_sample_has(const struct live_sample *sample, uint64_t address) {
  return sample->flags[live_bucket(address)] != 0;
}

/* Objects of this size are in the sample at any address. */
static inline bool live_sample_is_exact(const struct live_sample *sample, uint64_t request_bytes) {
  return request_bytes >= sample->exact_bytes;
}

/* An object as it is acquired; objects that are not in the sample are ignored. */
struct live_acquire {
  uint64_t address, bytes;
  uint32_t node, thread;
};
void live_sample_acquire(struct live_sample *sample, const struct live_acquire *acquired);

/* is_large: it is known to be large, so it may be exact although its acquire has not arrived. */
void live_sample_release(struct live_sample *sample, uint64_t address, uint32_t thread, bool is_large);

/* Called after each pass over the process's rings; a pass brings every acquire that a release of an earlier pass
   needs. */
void live_sample_pass(struct live_sample *sample);

/* Called about every 10 ms: makes the sample smaller where it costs too much, larger where it costs little. */
void live_sample_adapt(struct live_sample *sample);

struct live_estimate live_sample_estimate(const struct live_sample *sample);

/* What one object adds to the estimate. */
struct live_estimate live_object_estimate(const struct live_object *object);

enum { SITES_MAX = 1 << 14, SITE_CALL_BYTES = 128 };

/* Sums since the recording's start. */
struct site {
  uint32_t node;
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
  uint32_t drawn; /* since the sample was last adapted */
  VECTOR(struct site) sites;
  VECTOR(uint32_t) place_of; /* by node: its site's place in sites plus 1; 0: it has none */
  struct site others;
};

void site_sample_open(struct site_sample *sample, uint64_t seed);
void site_sample_close(struct site_sample *sample);

/* Called when left has fallen below 0, for the acquire that caused it. node: at most STACK_NODES_MAX. */
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
