/* SPDX-License-Identifier: MIT */
/* A group of objects on the command line, and the action on it: EXPR=ACTION (docs/use/BLAME.md, group expressions and
   "What if").

   Job: parsing the text. Not thread-safe. */
#pragma once

#include "convert/history/history.h"
#include "core/base/vector.h"

#include <jansson.h>
#include <stdint.h>

enum group_action { GROUP_REMOVE, GROUP_SEGREGATE, GROUP_POOL, GROUP_EARLY, GROUP_LATE };
extern const char *const group_action_names[];

enum group_grouping { BY_SITE, BY_FUNCTION, BY_FRAME, BY_THREAD, BY_SIZE, BY_PHASE };

struct group_range {
  uint64_t first, last;
};

/* Holds if one of its values matches. */
struct group_term {
  enum group_grouping grouping;
  VECTOR(struct group_range) ranges;
  VECTOR(char *) names; /* patterns, in which * stands for anything */
};

struct group {
  char *text; /* EXPR=ACTION, as given */
  enum group_action action;
  uint64_t pool_bytes;             /* of GROUP_POOL */
  VECTOR(struct group_term) terms; /* all must hold */
};

/* Parses text. Returns NULL, or what is wrong with it; the group can be freed either way. */
const char *group_parse(struct group *group, const char *text);
void group_free(struct group *group);

/* Does the name match the pattern, from its first to its last character? */
bool group_matches(const char *pattern, const char *name);

/* Which objects of a trace belong to which group: queried at each birth, in the history's order.

   Job: numbers of sites, threads and phases as docs/use/BLAME.md defines them, names of functions and frames. Memory is
   O(stack nodes + marks + threads). Not thread-safe. */

struct members;

struct groups {
  const struct group *at;
  size_t count;
};

/* groups must outlive it. Returns 0, or -1 with error, also if a group needs what the trace lacks: call stacks, or
   marks. */
int members_open(struct members **out, struct trace_reader *reader, struct groups groups, struct error *error);
void members_close(struct members *members);

/* Call them for each op and each step left out, before members_of. members_op returns the number of the op's thread, as
   in the workload of the whole trace. */
uint32_t members_op(struct members *members, const struct history_op *op);
void members_left_out(struct members *members, const struct merge_step *step);

/* Marks passed so far: the phase. */
uint64_t members_phase(const struct members *members);

#define MEMBERS_NONE SIZE_MAX
/* op is a birth. *group: the group that the object belongs to, or MEMBERS_NONE. Returns 0, or -1 with error: it belongs
   to two. */
int members_of(struct members *members, const struct history_op *op, size_t *group);

/* What if: a trace's history as it would be if groups of its objects were treated differently (docs/use/BLAME.md, "What
   if"), handed on to the compiler as by history_run.

   Job: what happens to each op of a group's objects; counts. Invariants: the result is a legal history; the ops of
   objects of no group are all there, unchanged, in their order. Memory is O(live objects + threads), with `early`
   O(births of the group) too. Not thread-safe. */

/* Numbers of ops in the trace's history, rising. */
struct positions {
  const uint64_t *at;
  size_t count;
};

struct rewriting {
  struct trace_reader *reader;
  const struct history_options *options;
  struct groups groups;
  struct positions positions; /* to be translated to positions in the result */
  json_t *about;              /* filled in: WORKLOAD.md, `whatif` and `whatif_positions`; the caller drops it */
};

/* As history_run with the rewriting's reader and options. witness: the trace's, but ops, live objects and peaks are
   those of the result. Returns 0, or -1 with error, also if groups overlap, a group matches nothing, the trace lacks
   what a group needs, or a position is beyond the end. */
int rewriting_run(struct rewriting *rewriting, const struct history_consumer *consumer, struct witness *witness,
                  struct error *error);

/* Hands ops on to the consumer of a rewritten history: with their own slots, live bytes and witness, as
   convert/history/history.h does for the ops of the trace.

   Invariant: each op handed on is legal after those before it, provided that the caller acquires objects once, releases
   them once, and touches them only in between. Memory is O(live objects + threads). Not thread-safe. */

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
