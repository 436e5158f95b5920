/* SPDX-License-Identifier: MIT */
/* Pools: objects of a group are carved from chunks, which are objects of the allocator under test.

   The rule: each group has a pool for each thread. An object takes the next bytes of the thread's newest chunk, rounded
   up to 16; if they do not fit, a new chunk is acquired by malloc, and the old chunk takes no more objects. A chunk,
   even the newest, is freed when its last object ends, by the thread that ends it. An object larger than a chunk, or
   aligned to more than 16 bytes, is not served by a pool. Memory is O(live objects + groups x threads). Not
   thread-safe. */
#pragma once

#include "convert/whatif/emitter.h"
#include "core/base/vector.h"

struct chunk {
  uint64_t carved_bytes;
  uint32_t slot; /* the emitter's; SLOTS_NONE: the chunk is free */
  uint32_t live; /* objects */
  uint32_t pool; /* the pool of the chunk */
  uint32_t next; /* free chunk plus 1 */
};

struct pools {
  struct emitter *emitter;
  VECTOR(struct chunk) chunks;
  uint32_t free_list; /* first free chunk plus 1 */
  uint32_t *newest;   /* of each pool: chunk plus 1; 0: none */
  uint32_t threads;
};

/* Returns 0, or -1: no memory; it can be freed either way. */
int pools_init(struct pools *pools, struct emitter *emitter, size_t groups, uint32_t threads);
void pools_free(struct pools *pools);

/* Can a pool of such chunks serve the birth or realloc? */
bool pools_take(const struct history_op *op, uint64_t chunk_bytes);

/* Bytes that an object takes of its chunk. */
uint64_t pools_carved_bytes(uint64_t request_bytes);

/* Carves the object that op acquires, for the group. added: set if a chunk was acquired. Returns 0, or -1 as
   emitter_put. */
struct pool_order {
  size_t group;
  uint64_t chunk_bytes;
  bool added;
  uint32_t chunk; /* filled in: where the object is */
};
int pools_carve(struct pools *pools, const struct history_op *op, struct pool_order *order);

/* op ends an object of the chunk. Returns as emitter_put. */
int pools_drop(struct pools *pools, const struct history_op *op, uint32_t chunk);

/* After the last op: reports the carved part of the live chunks to the consumer's touched_at_end. */
void pools_end(const struct pools *pools);
