/* SPDX-License-Identifier: MIT */
/* What a writer of ops keeps by slot: the slots of objects (WORKLOAD.md), which thread waits for which, and the places
   of TOUCHED words.

   Slots: hands out dense numbers so that the engine's threads seldom share a cache line of its
   object table, and seldom have to wait for each other when a slot is used again.

   A line of SLOTS_PER_LINE slots has one owner. A thread takes slots from its own list, which grows by a line. A slot
   emptied by its owner goes back to the owner's list. One emptied by another thread first goes through a quarantine of
   SLOTS_QUARANTINE, so that the wait for its last user is old when the slot is used again. The line of an ended thread
   goes to the next thread that needs slots, as a whole, including slots that are still in use. Invariants: memory is
   O(objects that lived at once + threads). Not thread-safe. */
#pragma once

#include "core/base/address_map.h"
#include "core/base/assert.h"
#include "core/base/touched.h"
#include "core/base/vector.h"
#include "core/workload/workload_write.h"

#include <stdbool.h>
#include <stdint.h>

enum { SLOTS_PER_LINE = 8, SLOTS_QUARANTINE = 4096 };
#define SLOTS_NONE UINT32_MAX

struct slot {
  uint64_t size_bytes; /* of the request; while empty: number of the next one in its list */
  uint64_t last;       /* for use by the consumer of the history; 0 in a slot never used */
};

/* Of SLOTS_PER_LINE slots. */
struct slot_line {
  uint32_t owner;
  uint32_t orphans;          /* its first empty slot since the owner ended; SLOTS_NONE: none */
  uint32_t next_orphan_line; /* valid if it has orphans */
};

struct slots {
  struct slot *at;
  struct slot_line *lines;
  uint32_t count; /* numbers in use or used before are below this */
  uint32_t room;
  uint32_t *lists;       /* of each thread: first empty slot; SLOTS_NONE: none */
  bool *ended;           /* threads that take no more slots */
  uint32_t orphan_lines; /* the first line with an empty slot whose owner has ended; SLOTS_NONE: none */
  uint32_t quarantine[SLOTS_QUARANTINE];
  uint32_t quarantine_next, quarantine_count;
};

bool slots_init(struct slots *slots, uint32_t threads);

/* Makes room for `more` threads, numbered from `threads` on; false if there is no memory. */
bool slots_add_threads(struct slots *slots, uint32_t threads, uint32_t more);

void slots_free(struct slots *slots);

/* The rarer cases of slots_take and slots_give. */
uint32_t slots_take_new(struct slots *slots, uint32_t thread);
void slots_give_remote(struct slots *slots, uint32_t slot);

/* Returns an empty slot for an object of the thread; SLOTS_NONE if there is no memory, or 2^32 - 2 are in use. May move
   `at`. */
static inline uint32_t slots_take(struct slots *slots, uint32_t thread) {
  uint32_t slot = slots->lists[thread];
  if (__builtin_expect(slot == SLOTS_NONE, 0))
    return slots_take_new(slots, thread);
  HT_ASSERT(slot < slots->count && slots->lines[slot / SLOTS_PER_LINE].owner == thread);
  slots->lists[thread] = (uint32_t)slots->at[slot].size_bytes;
  return slot;
}

/* The thread has released the object in the slot. */
static inline void slots_give(struct slots *slots, uint32_t slot, uint32_t thread) {
  HT_ASSERT(slot < slots->count);
  if (slots->lines[slot / SLOTS_PER_LINE].owner != thread) {
    slots_give_remote(slots, slot);
    return;
  }
  slots->at[slot].size_bytes = slots->lists[thread];
  slots->lists[thread] = slot;
}

/* The thread takes no more slots. */
void slots_end_thread(struct slots *slots, uint32_t thread);

/* Which thread waits for which (WORKLOAD.md, Waiting): an op on a slot waits for the op of another thread that used the
   slot last, unless an earlier wait covers it.

   The writer of ops keeps one struct waits per thread of the workload, and the word of waits_last in each slot. Not
   thread-safe. */
/* Peers that a thread remembers having waited for. Measured on a storm of remote frees among 64 threads: remembering
   more saves no words. */
enum { WAITS_REMEMBERED = 8 };

struct waits {
  struct {
    uint32_t thread;
    uint64_t ops;
  } done[WAITS_REMEMBERED];         /* the thread has waited for that many ops of that peer; direct-mapped by peer */
  uint64_t after[WAITS_REMEMBERED]; /* the argument of waits_note, in the form of waits_last */
};

/* The thread that used a slot last, and its number of completed ops, the use included; 0: none yet. */
enum { WAITS_THREAD_BITS = 20 };
static inline uint64_t waits_last(uint32_t thread, uint64_t ops) {
  return ops << WAITS_THREAD_BITS | thread;
}

/* In the program itself the thread continued only after a peer had completed that many ops (waits_last): a wait for
   that peer may cover all of them, and then replaces later waits. */
static inline void waits_note(struct waits *waits, uint64_t last) {
  waits->after[(last & ((1u << WAITS_THREAD_BITS) - 1)) % WAITS_REMEMBERED] = last;
}

/* Is there no other thread to wait for? */
static inline bool waits_none(uint32_t thread, uint64_t last) {
  return last == 0 || ((uint32_t)last & ((1u << WAITS_THREAD_BITS) - 1)) == thread;
}

/* Between workload_begin_op and workload_put_op of the thread: writes the wait for the slot's last user, if one is
   due. */
static inline void waits_put(struct waits *waits, struct workload_writer *writer, uint32_t thread, uint64_t last) {
  uint32_t peer = (uint32_t)last & ((1u << WAITS_THREAD_BITS) - 1);
  uint64_t ops = last >> WAITS_THREAD_BITS;
  if (waits_none(thread, last))
    return;
  unsigned place = peer % WAITS_REMEMBERED;
  if (waits->done[place].thread == peer && waits->done[place].ops >= ops)
    return;
  uint64_t after = waits->after[place];
  if (after > last && ((after ^ last) & ((1u << WAITS_THREAD_BITS) - 1)) == 0)
    ops = after >> WAITS_THREAD_BITS;
  waits->done[place].thread = peer;
  waits->done[place].ops = ops;
  workload_put_wait(writer, thread, peer, ops);
}

/* The places in the workload of the TOUCHED words of large live objects, by slot. The value to store is known at the
   object's release. Memory is O(live objects of at least TOUCHED_MIN_BYTES). Not thread-safe. */
/* Objects of fewer bytes have no TOUCHED word: capture does not check them either. */
struct touched_word {
  uint64_t offset;    /* in the file */
  uint64_t bytes;     /* the object's request */
  uint64_t old_bytes; /* before the resize that acquired it; 0: there was none, or what it had is not known */
  uint32_t had;       /* the most OS pages that it had before */
  uint32_t reused;    /* its OS pages that an earlier object had, of large ones (convert/compile/reused.h) */
  bool moved;         /* by that resize */
  uint32_t thread;    /* the thread whose stream it is in */
};

struct touched_words {
  struct address_map map; /* slot + 1 to index */
  VECTOR(struct touched_word) words;
  uint32_t free_list; /* first free word plus 1 */
};

bool touched_words_init(struct touched_words *words);
void touched_words_free(struct touched_words *words);

/* False if there is no memory. The slot must have none. */
bool touched_words_put(struct touched_words *words, uint32_t slot, const struct touched_word *word);

/* Returns the slot's word and removes it; false if it has none. */
bool touched_words_take(struct touched_words *words, uint32_t slot, struct touched_word *word);
