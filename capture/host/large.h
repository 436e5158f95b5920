/* SPDX-License-Identifier: MIT */
/* Touch truth: which large objects are live, and how many of their OS pages are resident when they are released.

   Not its job: recording (producer.h). Invariants: the table has a fixed size, is in shared memory and is changed
   without locks, so that threads and signal handlers may interrupt each other anywhere; an object is looked up only by
   the thread that releases it. An object whose set is full replaces another, which is then no longer known. Nothing
   here allocates, changes errno, may be cancelled or needs more than 1 KiB of stack. */
#pragma once

#include "capture/host/ownership.h"

/* The set for an object's tag entry and the seven entries beside it. */
static inline uint32_t large_set(const void *object) {
  return ownership_index(object) / 8 % LARGE_SETS;
}

/* False: object is not in the table. An object in the table makes steps at its tag entry uncommon, so that most
   releases do not need this check. */
static inline bool large_may_be(const void *object) {
  return atomic_load_explicit(&ownership_entry(object)->uncommon, memory_order_relaxed) != 0;
}

/* Is a request of this many bytes large? */
static inline bool large_is(uint64_t bytes) {
  return bytes >= host_state.touch_min_bytes;
}

/* Enters a live object; call before the program has it. */
void large_put(const void *object, uint64_t bytes);

/* Removes an object that is about to be released and returns its request in bytes, 0 if it is not known. */
uint64_t large_take(const void *object);

/* Calls visit for each object in the table. Other objects may be entered and removed meanwhile. */
void large_visit(void (*visit)(const void *object, uint64_t bytes));

/* The number of the object's OS pages that are resident, and in the upper half their map (core/base/touched.h); bytes >
   0. LARGE_UNKNOWN where mincore fails, or may not be called. The map is 0 where it says no more than the number: an
   object that was touched from its start on.
   quick: a large object is sampled, so that a program that resizes one in small steps pays little for each; it has no
   map.

   The OS pages at both ends also hold other data, often the allocator's own header. So each end counts as resident if
   its inner neighbour is, with the object's bytes in it; the sum is rounded up to OS pages. So an object of n OS pages
   that is completely resident counts n wherever it begins, an untouched one 0 even if its header is resident. An OS
   page that was only read counts (the kernel's zero page is resident), and so does one that was resident before the
   object was handed out; one that is swapped out does not. */
uint64_t large_touched(const void *object, uint64_t bytes, bool quick);
#define LARGE_UNKNOWN UINT64_MAX
