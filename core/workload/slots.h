/* SPDX-License-Identifier: MIT */
/* The slots of objects (WORKLOAD.md): hands out dense numbers so that the engine's threads seldom share a cache line of
   its object table, and seldom have to wait for each other when a slot is used again.

   A line of SLOTS_PER_LINE slots has one owner. A thread takes slots from its own list, which grows by a line. A slot
   emptied by its owner goes back to the owner's list. One emptied by another thread first goes through a quarantine of
   SLOTS_QUARANTINE, so that the wait for its last user is old when the slot is used again. The line of an ended thread
   goes to the next thread that needs slots, as a whole, including slots that are still in use. Invariants: memory is
   O(objects that lived at once + threads). Not thread-safe. */
#pragma once

#include "core/base/assert.h"

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
