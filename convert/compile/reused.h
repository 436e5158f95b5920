/* SPDX-License-Identifier: MIT */
/* What the program touched of large objects in memory that earlier objects had.

   A trace has which OS pages of an object were resident at its release. In new memory those are the touched ones; where
   an earlier large object was, some may be resident since then. Of such an object it is estimated: the share that the
   program touched of objects of like size in new memory, latest ones first; at least what can't be from before, at most
   what was resident. Without enough of them, and where their share is nearly whole, all that was resident counts.
   Not its job: where in the object. Memory: 64 bytes for each 2 MiB that large objects ever had, of 2 TiB;
   of objects beyond these all that was resident counts. Not thread-safe. */
#pragma once

#include "core/base/address_map.h"
#include "core/base/vector.h"

#include <stdbool.h>
#include <stdint.h>

/* Of smaller objects and of larger ones all that was resident counts. */
#define REUSED_MIN_BYTES ((uint64_t)64 << 10)
#define REUSED_MOST_BYTES ((uint64_t)1 << 30)
#define REUSED_UNKNOWN UINT32_MAX

struct reused_chunk {
  uint64_t had[8]; /* a bit for each OS page that an object had */
};

struct reused_size {
  double touched, os_pages; /* of objects in new memory, older ones counting less */
  uint32_t count;
};

struct reused {
  bool maps_large; /* the recorded allocator's large objects are mappings of their own */
  struct address_map chunks;
  VECTOR(struct reused_chunk) bits;
  struct reused_size sizes[64]; /* by the power of two of their bytes */
  uint64_t estimated_bytes;     /* of objects of which less counts than was resident */
};

/* maps_large: it is glibc's malloc. False: no memory. */
bool reused_init(struct reused *reused, bool maps_large);
void reused_free(struct reused *reused);

/* An object is acquired: how many of its whole OS pages an earlier object had. REUSED_UNKNOWN: all that will be
   resident counts, and tells nothing of others. */
uint32_t reused_acquire(struct reused *reused, uint64_t address, uint64_t bytes);

/* It is released, with those OS pages resident: how many of them the program touched. */
uint32_t reused_touched(struct reused *reused, uint64_t bytes, uint32_t had, uint32_t resident);
