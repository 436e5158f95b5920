/* SPDX-License-Identifier: MIT */
/* Hands ops on to the consumer of a rewritten history: with their own slots, live bytes and witness, as
   convert/history/history.h does for the ops of the trace.

   Invariant: each op handed on is legal after those before it, provided that the caller acquires objects once, releases
   them once, and touches them only in between. Memory is O(live objects + threads). Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/vector.h"

struct emitter {
  const struct history_consumer *consumer;
  struct slots slots;
  struct live_totals live;
  struct witness witness; /* of the ops handed on: their number and the live bytes, objects and peaks */
};

/* threads: of the trace. Returns 0, or -1: no memory; it can be freed either way. The emitter must not move: it points
   to its own witness. */
int emitter_init(struct emitter *emitter, const struct history_consumer *consumer, uint32_t threads,
                 uint64_t os_page_bytes);
void emitter_free(struct emitter *emitter);

/* Hands on the op. Fills in op->slot of a birth; for other ops it must be the slot of a live object. Returns 0, or -1:
   no memory or slots (then the birth's slot is SLOTS_NONE), or the consumer refused. */
int emitter_put(struct emitter *emitter, struct history_op *op);

/* The event gives no op at its place: it is left out, or its op is handed on elsewhere. Returns as emitter_put. */
int emitter_leave_out(struct emitter *emitter, const struct history_op *op);

/* The thread has no more ops. */
void emitter_end_thread(struct emitter *emitter, uint32_t thread);

/* Pools: objects of a group are carved from chunks, which are objects of the allocator under test.

   The rule: each group has a pool for each thread. An object takes the next bytes of the thread's newest chunk, rounded
   up to 16; if they do not fit, a new chunk is acquired by malloc, and the old chunk takes no more objects. A chunk,
   even the newest, is freed when its last object ends, by the thread that ends it. An object larger than a chunk, or
   aligned to more than 16 bytes, is not served by a pool. Memory is O(live objects + groups x threads). Not
   thread-safe. */

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

/* Births of objects that a rewriting moves to another place in their thread: the data kept of each until then.

   Early: all births of the group, in the order of each thread, collected in a separate run. Late: pending births, by
   the object's slot in the history. Memory is O(births kept). Not thread-safe. */

#define BIRTHS_NONE UINT32_MAX

struct birth {
  uint64_t size_bytes, param, request_bytes;
  uint32_t thread, stack;
  uint32_t slot;           /* the rewritten object's; BIRTHS_NONE: not born yet */
  uint32_t next, previous; /* of the thread */
  uint8_t call;
};

struct moved_births {
  VECTOR(struct birth) births;
  uint32_t free_list;     /* by next; BIRTHS_NONE: empty */
  uint32_t *first, *last; /* of each thread */
};

/* Returns 0, or -1: no memory; it can be freed either way. */
int moved_births_init(struct moved_births *moved, uint32_t threads);
void moved_births_free(struct moved_births *moved);

/* Adds the birth as the last one of its thread; returns its number, BIRTHS_NONE: no memory. */
uint32_t moved_births_add(struct moved_births *moved, const struct history_op *op);

/* Removes it from its thread's list; its number is reused. */
void moved_births_remove(struct moved_births *moved, uint32_t number);

/* Returns the op of the birth at that time, to be handed on; fills in event with what the op needs of it. */
struct history_op moved_birth_op(const struct birth *birth, uint64_t stamp, struct trace_event *event);
