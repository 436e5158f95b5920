/* SPDX-License-Identifier: MIT */
/* The recording's values that the fast path needs, as globals, and queries for any part of the library.

   Not its job: setting these values (attach.h), threads and records (producer.h). Invariants: valid once the process
   has attached; all zero before. A fork child finds its parent's values here until it attaches, but uses only
   host_sandboxed, as its producers are wiped. Async-signal-safe; keeps errno. */
#pragma once

#include "capture/wire/ring.h"

#include <stdbool.h>
#include <stddef.h>

enum { TAG_BITS = 17, TAG_ENTRIES = 1 << TAG_BITS, LARGE_SETS = 4096, LARGE_WAYS = 4 };

/* The state of a place in the heap, which the hooks check with one comparison. */
union tag_entry {
  struct {
    _Atomic uint16_t tag;      /* ownership.h */
    _Atomic uint16_t uncommon; /* number of reasons why no step here is a common one, mainly large objects (large.h) */
  };
  _Atomic uint32_t both; /* low half: tag */
};
_Static_assert(sizeof(union tag_entry[TAG_ENTRIES]) % (64 << 10) == 0, "the control page is not at an OS page's start");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tag is not the low half of both");

/* Tables of all threads of the process; in shared memory, so that they don't add to the host's RssAnon. One object, so
   that a hook needs one pointer. */
struct tables {
  union tag_entry entry[TAG_ENTRIES];
  union {
    struct control control; /* the collector's page, mapped here */
    char control_room[64 << 10];
  };
  _Atomic uint8_t large_use[LARGE_SETS]; /* large.h: entries of the set that are in use */
  struct large_entry {
    _Atomic uintptr_t address; /* 0: free */
    _Atomic uint64_t bytes;    /* request */
  } large[LARGE_SETS][LARGE_WAYS];
};

/* What a thread is doing, as noted in its producer. */
enum producer_state {
  PRODUCER_NONE = 16, /* there is no producer, only a struct producer_quick */
  PRODUCER_WIPED = 0, /* a fork child's view of its parent's producer */
  PRODUCER_IDLE,      /* in no call, or in a real function that calls none of the hooks */
  PRODUCER_CALLING,   /* inside a real function */
  PRODUCER_NEW,       /* inside a real operator new, which may itself call malloc, or a new-handler of the program */
  PRODUCER_DELETE,    /* inside a real operator delete, which may itself call free */
  PRODUCER_RECORDING, /* cursor is being moved */
  PRODUCER_OFF,       /* excluded */
  PRODUCER_GUARDED,   /* IDLE where the allocator is not libc's, so that its functions may call hooks */
  PRODUCER_OPTIONAL,  /* IDLE where optional columns are recorded: each call then takes the slow path */
};

struct host_state {
  struct tables *tables;
  uint32_t flags;              /* enum attach_flags */
  const struct region *region; /* the first */
  uint64_t touch_min_bytes;
  uint64_t quick_bytes; /* requests below it are recorded in one slot and are not large */
  uint64_t os_page_bytes;
  uint32_t idle;       /* enum producer_state of a thread in no call: IDLE, GUARDED or OPTIONAL */
  uint32_t clock_cost; /* duration of two clock readings, in its units; subtracted from each latency */
};
extern struct host_state host_state __attribute__((visibility("hidden")));

/* Bits of enum pause_reason. Cheap. Precondition: the process has attached. */
static inline uint32_t host_paused(void) {
  return atomic_load_explicit(&host_state.region->paused, memory_order_relaxed);
}

/* Has the process put itself under a filter of system calls? Then this library makes no system calls: any one might
   kill the process. Inherited by fork children, which check this before they attach. Cheap. */
static inline bool host_sandboxed(void) {
  const struct region *region = host_state.region;
  return region && atomic_load_explicit(&region->sandboxed, memory_order_relaxed);
}

/* Has the collector died? Cheap. Precondition: the process has attached. */
bool host_collector_died(void);

/* Ends the collector's sleep, if it sleeps. Precondition: the process has attached. */
void host_wake_collector(void);
