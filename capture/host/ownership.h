/* Ownership tags: which steps need a stamp, so that merging the threads by stamp is a legal history (DESIGN of the
   order scheme and its proof: README.md here).

   Invariants: a step of a release is checked before the real call, one of an acquire after it. The tick is read before
   the exchange, the exchange comes before the stamp, the stamp before the recheck; a thread that stamps each event
   stamps first and marks the tag entry then. All are needed. */
#ifndef CAPTURE_HOST_OWNERSHIP_H
#define CAPTURE_HOST_OWNERSHIP_H

#include "capture/host/process/host_state.h"
#include "core/base/os.h"

#include <stdbool.h>

/* An entry's tag is 0 (nobody's), a thread's tag, or TAG_SHARED: touched by a thread that stamps each event, and
   foreign to all. Where it is shared and the entry is one of the sampled, the low bits name that thread. */
enum {
  TAG_SHARED = 0x8000,
  TAG_NONE = 0x7fff, /* never in the table: the own tag of a thread that stamps each event */
  TAG_LAST = 0x7ffe,
  TAG_SAMPLED = 32, /* each 32nd entry is */
};

/* An entry for each 256 bytes, and 2^18 of them, so that the table takes half a megabyte at most of the host's caches:
   with an entry for each 64 bytes and 2^20 of them, redis and python3 cost twice as much (13.4 and 12.3 ns of host CPU
   per event, now 6.5 and 5.8; medians of 5 in turns), larson and storms of remote frees the same. Wider entries win
   nothing more. Objects that share an entry only cause stamps: no trace of the threaded programs grew by more than 2 %.
   Neighbours stay neighbours, for the host's caches; the product spreads the arenas of threads, which lie at multiples
   of 64 MiB and would otherwise share the same entries. */
static inline uintptr_t ownership_hash(const void *address) {
  uintptr_t bits = (uintptr_t)address;
  return (bits >> 8) + (bits >> 26) * 0x9e3b1;
}

static inline _Atomic uint16_t *ownership_tag(const void *address) {
  return &host_state.tables->tag[ownership_hash(address) & (TAG_ENTRIES - 1)];
}

static inline uint32_t ownership_tick(void) {
  return atomic_load_explicit(&host_state.control->tick, memory_order_relaxed);
}

static inline uint64_t ownership_stamp(void) {
  if (__builtin_expect(host_state.flags & ATTACH_COUNTER, 0))
    return atomic_fetch_add(&host_state.control->counter, 1) + 1;
  return os_stamp();
}

/* Is the address's entry one of those that always tell which thread touched it last? By them a thread that stamps each
   event knows how many of its events would find a foreign tag. All entries could tell; but then each event that does
   would write its entry's line, and storms of remote frees fight for these. */
static inline bool ownership_is_sampled(const void *address) {
  return ownership_hash(address) % TAG_SAMPLED == 0;
}

/* For a thread that stamps each event: the stamp, then the mark. tag: its own for life, 0 if it has none. Returns in
 *before what the entry held. */
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

/* Takes the address's entry for the tag and returns the stamp that begins the thread's run there. Other threads may
   want the entry at the same time; after a few tries the event stamps for itself alone, which is always right. */
static inline uint64_t ownership_take(const void *address, uint16_t own) {
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

#endif
