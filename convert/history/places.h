/* SPDX-License-Identifier: MIT */
/* Threads of a history that wait until an address becomes live or is released (convert/history/history.h).

   Not its job: deciding what is legal. Invariants: a parked thread is out of the merge; parked threads are listed by
   the stamp of their waiting step, oldest first. Memory is O(threads). Not thread-safe. */
#pragma once

#include "convert/history/merge.h"

#include <stdbool.h>
#include <stdint.h>

enum { PARKING_BUCKETS = 1024 };
#define PARKING_NONE UINT32_MAX

struct parked_thread {
  uint64_t address, stamp;
  uint64_t since;         /* steps placed when it was first parked for its present step */
  uint64_t awaited_stamp; /* stamp of the step that woke it */
  uint32_t next_in_bucket, older, newer;
  bool wants_live; /* waits until the address is live; false: until it is released */
  bool parked, waited, woken, forced;
};

struct parking {
  struct parked_thread *threads;
  uint32_t buckets[PARKING_BUCKETS]; /* first thread waiting for an address of that hash */
  uint32_t oldest, newest;
  uint32_t count;    /* parked now */
  uint32_t any_flag; /* threads parked now, or woken and not yet cleared: if 0, the fast path skips all this */
};

bool parking_init(struct parking *parking, uint32_t threads);
void parking_free(struct parking *parking);

/* Parks the thread of the step, which is the one that merge_peek returned. steps_placed: so far. */
void parking_park(struct parking *parking, struct merge *merge, const struct merge_step *step, uint64_t steps_placed);

/* The address has become live, or was released, in a step of that stamp: threads that wait for this return to the
   merge. */
void parking_wake_slowly(struct parking *parking, struct merge *merge, uint64_t address, bool live, uint64_t stamp);
static inline void parking_wake(struct parking *parking, struct merge *merge, uint64_t address, bool live,
                                uint64_t stamp) {
  if (parking->count)
    parking_wake_slowly(parking, merge, address, live, stamp);
}

/* Is the oldest parked step more than the horizon before that stamp? There must be one. */
bool parking_is_overdue(const struct parking *parking, uint64_t stamp, uint64_t horizon);

/* Returns the oldest parked thread to the merge; its step will be placed by force. There must be one. */
void parking_give_up(struct parking *parking, struct merge *merge);
bool parking_is_forced(const struct parking *parking, uint32_t thread);

/* Did the thread wait for its present step until it became possible? If so, sets since and awaited_stamp. */
bool parking_was_woken(const struct parking *parking, uint32_t thread, uint64_t *since, uint64_t *awaited_stamp);

/* The thread's present step has been placed. */
void parking_clear(struct parking *parking, uint32_t thread);

/* The bytes of live objects, for the proof that no two live objects share a byte (`check`; compile does not use it).

   Small objects are bits of a shadow, one per GRANULE of 8 bytes, in regions of 64 KiB that exist while they hold an
   object; large objects are in an array sorted by address. Positions inside a granule of 8 bytes are not distinguished:
   an overlap of fewer bytes may go unseen, but no overlap is invented. Memory is at most 1 KiB per live object. Not
   thread-safe. */

struct ranges;

enum ranges_result { RANGES_ADDED, RANGES_OVERLAP, RANGES_NO_MEMORY };

/* NULL if there is no memory. ranges_free takes NULL. */
struct ranges *ranges_new(void);
void ranges_free(struct ranges *ranges);

/* Adds [address, address + size_bytes), unless it shares bytes with an object added before. An object of 0 bytes counts
   as 1 byte. */
enum ranges_result ranges_add(struct ranges *ranges, uint64_t address, uint64_t size_bytes);

/* Removes an object that was added with the same values. */
void ranges_remove(struct ranges *ranges, uint64_t address, uint64_t size_bytes);
