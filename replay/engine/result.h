/* SPDX-License-Identifier: MIT */
/* Shared by the two processes of a run: what the engine is to do, its progress, and what it measured.

   Job: the layout of the shared area. Not its job: making it (run.c), filling it in (engine.c and those below it),
   printing it (report.c). Invariants: the area is in a memfd mapped by both; the parent writes `setup` before the
   engine starts and nothing afterwards; the engine writes everything else; fields that are read while the engine runs
   are atomic. Nothing here is a pointer. */
#pragma once

#include "core/base/error.h"
#include "core/sharing/line_sharing.h"
#include "core/trace/event.h"
#include "replay/engine/allocator_stats.h"
#include "replay/memory/memory_figures.h"
#include "replay/passes/blame/blame_figures.h"
#include "replay/passes/contention/contention_figures.h"
#include "replay/passes/pmu_count.h"
#include "replay/passes/time/counter.h"
#include "replay/passes/time/histogram.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum replay_pass {
  PASS_TIME,
  PASS_MEMORY,
  PASS_BARE,
  PASS_VERIFY,
  PASS_INSTRUCTIONS,
  PASS_SHARING,
  PASS_MISSES,
  PASS_BLAME,
  PASS_CONTENTION
};
enum { PASSES = PASS_CONTENTION + 1 };
enum replay_order { ORDER_RECORDED, ORDER_CAUSAL, ORDER_WINDOW, ORDER_PACED, ORDER_RANDOM };

/* The memory pass, and the pass that contains it. */
static inline bool pass_samples_memory(enum replay_pass pass) {
  return pass == PASS_MEMORY || pass == PASS_BLAME;
}

/* The passes that can also count between positions. */
static inline bool pass_counts_by_windows(enum replay_pass pass) {
  return pass == PASS_INSTRUCTIONS || pass == PASS_MISSES;
}

/* Orders in which one thread runs at a time (turns.h). */
static inline bool order_by_turns(enum replay_order order) {
  return order == ORDER_RECORDED || order == ORDER_RANDOM;
}

enum touch_policy { TOUCH_RECORDED, TOUCH_LINES, TOUCH_FIRST, TOUCH_PAGES, TOUCH_ALL, TOUCH_NONE };

/* The phase of a run, from which the parent knows whose system calls it counts and when the engine failed. */
enum replay_phase {
  PHASE_LOADING, /* dynamic linker and the allocator's constructors */
  PHASE_SETUP,   /* the engine maps its tables */
  PHASE_REPLAY,
  PHASE_EMPTYING, /* memory pass: live objects are freed, the allocator is purged (held.h) */
  PHASE_DONE,
};

enum {
  TIMELINE_ROWS = 8192,
  MAP_POSITIONS = 256,
  MAP_BYTES = 64 << 20, /* sparse: only what is written costs memory */
  FRAGMENTATION_ROWS = MAP_POSITIONS + 2,
  PRELOAD_LIMIT = 64,
};

/* Passes instructions and misses: positions between which they count, strictly rising, at most the workload's ops. */
enum { WINDOW_EDGES_LIMIT = 1 << 16 };
struct window_edges {
  uint32_t count; /* 0, or at least 2 */
  uint64_t positions[WINDOW_EDGES_LIMIT];
};

struct replay_setup {
  enum replay_pass pass;
  enum replay_order order;
  enum touch_policy touch;
  uint64_t touch_bound_bytes; /* touch.h */
  bool null_allocator;
  bool baseline_only;     /* stop just before the first op */
  bool as_malloc;         /* all calls become malloc and free (call.h) */
  uint64_t disturb_lines; /* time pass (disturb.h) */
  bool real_clock;        /* leave the allocator's clock alone (recorded_clock.h) */
  bool threads_to_cores;  /* thread i runs only on the i-th allowed processor, cyclically */
  uint64_t window;        /* positions, ORDER_WINDOW */
  double speed;           /* ORDER_PACED */
  uint64_t seed;          /* ORDER_RANDOM */
  uint64_t op_limit;      /* replay only this many positions, to 64 ops; not ORDER_RECORDED; 0: all */
  char path[PATH_MAX];    /* of the workload, for errors */
  struct blame_setup blame;
  char origins_path[PATH_MAX]; /* the same */
  struct window_edges edges;   /* passes instructions and misses */
};

/* Read by the parent while the engine runs, written by each thread: one cache line each, so that threads do not share
   it. */
struct gate {
  _Alignas(64) _Atomic uint64_t value; /* only rises */
  _Atomic uint64_t wake_at;            /* the lowest value for which a sleeper waits; UINT64_MAX: none sleeps */
  struct gate_sleeper *sleepers;       /* lowest awaited value first; under the lock, like wake_at */
  pthread_mutex_t lock;
};

/* How long one thread waited, from its first word to its last. */
struct replay_waits {
  uint64_t count, cycles, life_cycles;
  uint32_t thread;
};
enum { WAITS_KEPT = 16 };

/* How the paced order met its times: of `times`, it slept until `sleeps`. */
struct replay_pace {
  uint64_t times, sleeps, late_ns, late_max_ns;
};

struct replay_row {
  uint64_t position, rss_anon_bytes, vm_size_bytes, live_bytes;
};

struct replay_held {
  uint64_t rss_anon_bytes, vm_size_bytes;
};

/* Size classes, in which calls are counted separately: 0 bytes, then up to 16, 32, 64, ... bytes, up to 4 MiB, and
   more. An acquire's size is its request, a release's the request of its object. */
enum { SIZE_CLASSES = 21 };

static inline unsigned size_class(uint64_t bytes) {
  if (bytes == 0)
    return 0;
  unsigned class = bytes <= 16 ? 1 : 61 - (unsigned)__builtin_clzll(bytes - 1);
  return class < SIZE_CLASSES ? class : SIZE_CLASSES - 1;
}

/* Returns the largest size in the class; UINT64_MAX for the last. */
static inline uint64_t size_class_last(unsigned class) {
  return class == 0 ? 0 : class == SIZE_CLASSES - 1 ? UINT64_MAX : (uint64_t)8 << class;
}

/* Ids of calls are below TIMED_CALLS; the data kept for each call is too large for CALL_LIMIT of them. */
enum { TIMED_CALLS = 36, SLOW_CALLS = 64 };
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  _Static_assert(id < TIMED_CALLS, "TIMED_CALLS is above all ids");
#include "core/trace/calls.def"

/* Cycles as read: the cost of reading is not yet subtracted. They are of those of `count` calls that were not
   preempted; preempted ones are only counted. */
struct replay_call {
  uint64_t count, preempted, cycles_total, cycles_max;
  struct histogram histogram;
};

struct slow_call {
  uint64_t cycles, op; /* op: number in its thread */
  uint64_t size_bytes;
  uint32_t thread;
  uint8_t call;
};

/* Writing to new objects, timed for some of them. */
struct replay_touching {
  uint64_t objects, sampled, cycles;
};

/* Calls in which the thread was off its processor: because other threads ran (calls, cycles; not in the histograms),
   and because it slept or took a signal (slept; in the histograms). */
struct replay_preempted {
  uint64_t calls, cycles, slept;
};

struct replay_result {
  struct replay_setup setup;

  _Atomic uint32_t phase;
  _Atomic uint32_t pacing_threads;                /* asleep until the recorded time */
  _Atomic uint32_t live_threads, blocked_threads; /* blocked: in a wait that only another thread ends */
  _Atomic uint32_t failed;                        /* 1: `error` is being written, 2: it is written */
  _Atomic uint64_t done;                          /* memory pass: ops done by all threads */
  _Atomic uint32_t died_thread;                   /* thread that received a fatal signal, plus 1 */
  struct error error;

  bool clock_recorded;                  /* the allocator's clock followed recorded time (recorded_clock.h) */
  bool malloc_is_of_libc;               /* no preloaded library defines it */
  uint64_t preloads_missing;            /* bit i: entry i of LD_PRELOAD was not loaded */
  uint64_t linker_first, linker_last;   /* addresses of the dynamic linker's code */
  uint64_t file_first, file_last;       /* where the workload is mapped: madvise there is the engine's */
  uint64_t origins_first, origins_last; /* the same for the origins */
  uint64_t brk_at_setup;

  uint64_t ops;     /* done, skipped ones included */
  uint64_t skipped; /* ops on an object whose acquire had failed */
  uint64_t failed_calls;
  uint64_t substituted[CALL_LIMIT]; /* calls replayed by a plainer entry point, by the call recorded */
  uint64_t waits, wait_cycles;
  uint64_t life_cycles;                       /* of all threads, from first to last word */
  struct replay_waits most_waits[WAITS_KEPT]; /* of the threads that waited longest, in no order */
  struct replay_pace pace;
  uint64_t verified_objects, verified_bytes, verified_partly, verified_at_end; /* verify.h; partly: objects */

  uint64_t wall_ns, cpu_ns;                /* cpu_ns: of the replaying threads, less what they spent waiting */
  uint64_t startup_page_faults;            /* both kinds, up to main */
  uint64_t page_faults, page_faults_major; /* both kinds; the engine's own subtracted from the first */
  uint64_t rss_anon_start_bytes, vm_size_start_bytes; /* just before the first op */
  uint64_t rss_anon_end_bytes, vm_size_end_bytes, live_bytes_end;
  _Atomic uint64_t live_bytes_peak;
  uint64_t vm_hwm_bytes;            /* proc_status.h; the engine's own memory included */
  struct replay_held freed, purged; /* held.h; memory pass */
  struct pmu_count pmu[PMU_EVENTS]; /* bare pass */
  char purge_call[96];              /* empty: none is known */
  bool aslr;                        /* addresses were randomised; written by the parent's child */

  uint64_t call_counts[CALL_LIMIT]; /* by the call recorded; instructions pass */

  /* Time pass. */
  struct empty_calls empty, empty_before; /* among the timed calls; before the first op */
  struct replay_touching touching;
  struct replay_preempted preempted;
  bool preemption_known;
  struct slow_call slowest[SLOW_CALLS];
  struct replay_call calls[TIMED_CALLS][SIZE_CLASSES]; /* by the call recorded */

  struct allocator_stats allocator_stats;

  uint64_t rows, rows_lost;
  struct replay_row timeline[TIMELINE_ROWS];
  uint64_t map_region_bytes, map_positions_count, map_used_bytes, map_lost_bytes, map_lost_resident_bytes;
  uint32_t map_residency; /* enum residency_method */
  uint64_t map_positions[MAP_POSITIONS + 2];
  uint8_t map[MAP_BYTES];
  uint64_t fragmentation_count;
  bool usable_size_missing; /* the allocator has no malloc_usable_size */
  unsigned walk_states;     /* 0: it offers no heap walk */
  char walk_state_names[WALK_STATES][WALK_STATE_NAME_BYTES];
  struct fragmentation_row fragmentation[FRAGMENTATION_ROWS];

  struct line_sharing_counts sharing; /* sharing pass */
  struct blame_result blame;          /* blame pass */
  struct contention contention;       /* contention pass */

  uint32_t thread_count;
  struct gate completed[]; /* one per thread: ops it has done */
};
