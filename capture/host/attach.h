/* The host process's side of the recording: meeting the collector, mapping its memory, and giving up.

   Not its job: threads and records (producer.h). Invariants: no descriptor is kept between calls; all of it lies in
   memory that a fork child finds wiped, so that a child can never take its parent's state for its own; failure ends the
   recording, never the host. Everything here keeps errno and is never a cancellation point. */
#ifndef CAPTURE_HOST_ATTACH_H
#define CAPTURE_HOST_ATTACH_H

#include "capture/wire/ring.h"

#include <stdbool.h>
#include <stddef.h>

enum { PRODUCERS_MAX = 65536 };

enum process_state { PROCESS_NEW, PROCESS_RECORDING, PROCESS_OFF };

struct producer;

/* One per process, in pages that are wiped on fork: all zero means a process that has not attached. */
struct process {
  _Atomic uint32_t state;
  _Atomic uint32_t lock; /* of attaching and of giving out producers; held with all signals blocked */
  int pid;
  uint32_t flags; /* enum attach_flags */
  uint32_t regions;
  uint32_t rings_left; /* of the last region */
  struct {
    struct region *memory;
    uint32_t rings;
  } region[REGIONS_MAX];
  char *pool; /* where the next producers come from */
  size_t pool_bytes;
  uint32_t producers, probe;
  struct producer *producer[PRODUCERS_MAX];
};

/* 4096 sets: their counts are what each free looks at, and 4 KiB of them stay in the first-level cache. */
enum { TAG_ENTRIES = 1 << 18, LARGE_SETS = 4096, LARGE_WAYS = 4 };

/* What all threads of the process look addresses up in; shared memory, as the host's RssAnon is to stay its own. One
   object, so that the second look-up of a release needs no further pointer. */
struct tables {
  _Atomic uint16_t tag[TAG_ENTRIES];     /* ownership.h */
  _Atomic uint8_t large_use[LARGE_SETS]; /* large.h: entries of the set that are in use */
  struct large_entry {
    _Atomic uintptr_t address; /* 0: free */
    _Atomic uint64_t bytes;    /* request */
  } large[LARGE_SETS][LARGE_WAYS];
};

/* What the fast path needs, as globals: valid once a process has attached. A fork child finds its parent's values here
   until it attaches, but uses none, as its producers are wiped. */
struct host_state {
  struct tables *tables;
  struct control *control;
  uint32_t flags;              /* enum attach_flags */
  const struct region *region; /* the first */
  uint64_t touch_min_bytes;
  uint64_t os_page_bytes;
  uint32_t idle;       /* enum producer_state of a thread that is not in a call: OPTIONAL where columns are wanted */
  uint32_t clock_cost; /* of a latency: what two readings of the clock take, in its units */
};
extern struct host_state host_state;

/* The process, attached if that can be done; NULL if it is not to be recorded. Call with signals blocked and not
 * locked. */
struct process *process_get(void);

/* True once it is known that this process is not, or no longer, recorded. Cheap. */
bool process_is_off(void);

/* Adds a region; called with the lock held. False: the collector gives none. */
bool process_add_region(struct process *process);

void process_lock(struct process *process);
void process_unlock(struct process *process);

/* Ends the recording of this process; the first caller also says why, in one line, where standard error is still the
   one that the process was started with. */
void process_stop(struct process *process, const char *why);

/* Has the collector died? Cheap. */
bool process_collector_died(void);

/* Bits of enum pause_reason. Cheap. Call only with a producer in hand, so in a process that has attached. */
static inline uint32_t process_paused(void) {
  return atomic_load_explicit(&host_state.region->paused, memory_order_relaxed);
}

/* Has the process put itself under a filter of system calls? Then this library makes none: each might be the one that
   kills it. Inherited by fork children, which look here before they attach. Cheap. */
static inline bool process_sandboxed(void) {
  const struct region *region = host_state.region;
  return region && atomic_load_explicit(&region->sandboxed, memory_order_relaxed);
}

/* Blocks all signals of the thread, or sets them back. *mask is 64 bits, as the kernel has it. */
void process_block_signals(uint64_t *mask);
void process_restore_signals(const uint64_t *mask);

/* Memory that is private, anonymous and wiped in a fork child; NULL on failure. */
void *process_map_wiped(size_t bytes);

#endif
