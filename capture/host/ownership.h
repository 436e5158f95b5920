/* SPDX-License-Identifier: MIT */
/* Ownership tags: which steps need a stamp, so that merging the threads by stamp gives a legal history. The scheme and
   its proof: docs/methods/ORDERING.md.

   Invariants, all of which the proof needs: a step of a release is checked before the real call, one of an acquire
   after it. A thread reads the tick, then exchanges the tag, then takes the stamp, then reads the tag again; only the
   first thread at an entry does without a stamp. A thread that stamps each event takes the stamp first and then marks
   the tag entry. The stamp makes processors keep these orders (core/base/os.h: os_stamp): when it is taken, all
   accesses before it are done, and none after it has begun. So the reads and marks here need no further ordering
   (docs/methods/ORDERING.md, On real processors). */
#pragma once

#include "capture/host/process.h"
#include "core/base/assert.h"
#include "core/base/os.h"

#include <stdbool.h>

/* An entry holds 0 (no thread has touched it), a thread's tag, or TAG_SHARED: a thread that stamps each event touched
   it last, so that every thread finds it foreign. In a sampled entry, the bits below TAG_SHARED name that thread. */
enum {
  TAG_SHARED = 0x8000,
  TAG_NONE = 0x7fff, /* never in the table: a thread that stamps each event compares with this */
  TAG_LAST = 0x7ffe,
  TAG_SAMPLED = 32, /* each 32nd entry is sampled */
};

/* One entry for each 512 bytes or a little less, and 2^17 entries, so that the table takes at most half a megabyte of
   the host's caches: with an entry for each 64 bytes and a table of 2 MiB, redis and python3 cost twice as much.
   Objects that share an entry only cause stamps. The product's upper bits are the address's bits 9 to 25, so that
   neighbours stay neighbours, for the host's caches, plus 5003 times its bits from 26 on: that spreads the arenas of
   threads, which are at multiples of 64 MiB and would otherwise share the same entries. The bits below 26 take part in
   the second product, too, so that an entry is 493 bytes; a mask would cost each hook four more instructions. */
static inline uint32_t ownership_index(const void *address) {
  const uint64_t spread = ((uint64_t)1 << (64 - TAG_BITS - 9)) + ((uint64_t)5003 << (64 - TAG_BITS - 26));
  return (uint32_t)((uint64_t)(uintptr_t)address * spread >> (64 - TAG_BITS));
}

static inline union tag_entry *ownership_entry(const void *address) {
  return &host_state.tables->entry[ownership_index(address)];
}

static inline _Atomic uint16_t *ownership_tag(const void *address) {
  return &ownership_entry(address)->tag;
}

/* From now on, no step at the address's entry is a common one. */
static inline void ownership_make_uncommon(const void *address) {
  atomic_fetch_add(&ownership_entry(address)->uncommon, 1);
}

static inline uint32_t ownership_tick(void) {
  return (uint32_t)(atomic_load_explicit(&host_state.tables->control.tick, memory_order_relaxed) >> 32);
}

/* The tick and the value of the address's entry in one number, so that a hook needs one comparison. */
static inline uint64_t ownership_load(const void *address) {
  const struct tables *tables = host_state.tables;
  atomic_signal_fence(memory_order_seq_cst);
  uint64_t both = *(const uint32_t *)&tables->entry[ownership_index(address)].both;
  both += *(const uint64_t *)&tables->control.tick; /* plain, so that the compiler makes it part of the addition */
  atomic_signal_fence(memory_order_seq_cst);
  return both;
}

/* The value of ownership_load where the tick is `tick`, and the entry holds the tag `own` and is of the common case. */
static inline uint64_t ownership_common(uint32_t tick, uint32_t own) {
  return (uint64_t)tick << 32 | own;
}

static inline uint64_t ownership_stamp(void) {
  if (__builtin_expect(host_state.flags & ATTACH_COUNTER, 0))
    return atomic_fetch_add(&host_state.tables->control.counter, 1) + 1;
  return os_stamp();
}

/* Is the address's entry sampled, that is, does it always hold the thread that touched it last? From sampled entries, a
   thread that stamps each event knows how many of its events would find a foreign tag. If all entries did this, each
   such event would write its entry's cache line, for which the threads of a storm of remote frees would contend. */
static inline bool ownership_is_sampled(const void *address) {
  return ownership_index(address) % TAG_SAMPLED == 0;
}

/* For a thread that stamps each event: takes the stamp, then marks the entry. tag: the producer's, 0 if it has none.
 *before receives what the entry held. */
static inline uint64_t ownership_stamp_and_mark(const void *address, uint16_t tag, uint16_t *before) {
  uint64_t stamp = ownership_stamp();
  *before = 0;
  if (!address || (host_state.flags & ATTACH_STAMP_EVERY))
    return stamp;
  _Atomic uint16_t *entry = ownership_tag(address);
  *before = atomic_load_explicit(entry, memory_order_relaxed);
  if (ownership_is_sampled(address) ? *before != (TAG_SHARED | tag) : !(*before & TAG_SHARED))
    atomic_store_explicit(entry, (uint16_t)(TAG_SHARED | tag), memory_order_release);
  return stamp;
}

/* Puts the tag into an entry that no thread has touched: no step of another thread came before, so this step needs no
   stamp. False: another thread was there. */
static inline bool ownership_claim(const void *address, uint16_t own) {
  uint16_t untouched = 0;
  return atomic_compare_exchange_strong(ownership_tag(address), &untouched, own);
}

/* Puts the tag into the address's entry and returns the stamp that begins the thread's run there. Where other threads
   put theirs at the same time, only this event is stamped after a few tries, which is always correct. */
static inline uint64_t ownership_take(const void *address, uint16_t own) {
  HT_ASSERT(own != 0 && own <= TAG_LAST);
  _Atomic uint16_t *tag = ownership_tag(address);
  for (int tries = 0; tries < 8; tries++) {
    atomic_exchange(tag, own);
    uint64_t stamp = ownership_stamp();
    if (atomic_load_explicit(tag, memory_order_acquire) == own)
      return stamp;
  }
  uint16_t before;
  return ownership_stamp_and_mark(address, own, &before);
}
