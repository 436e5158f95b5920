/* SPDX-License-Identifier: MIT */
/* Shared by the two processes of a run: what the engine is to do, its progress, and what it measured.

   Job: the layout of the shared area. Invariants: the area is in a memfd mapped by both; the parent writes the first
   fields, and those of a pass that ask for something, before the engine starts and nothing afterwards; the engine
   writes everything else; fields that are read while the engine runs are atomic. Nothing here is a pointer. */
#pragma once

#include "core/base/error.h"
#include "core/elf/elf_file.h"
#include "core/trace/event.h"
#include "replay/engine/run_spec.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The phase of a run, from which the parent knows whose system calls it counts and when the engine failed. */
enum replay_phase {
  PHASE_LOADING, /* dynamic linker and the allocator's constructors */
  PHASE_SETUP,   /* the engine maps its tables */
  PHASE_REPLAY,
  PHASE_EMPTYING, /* live objects are freed, the allocator is purged (replay/passes/memory.c) */
  PHASE_DONE,
};

enum { PRELOAD_LIMIT = 64 };

/* Read by the parent while the engine runs, written by each thread: one cache line each, so that threads do not share
   it. */
struct watermark {
  _Alignas(64) _Atomic uint64_t value; /* only rises */
  _Atomic uint64_t wake_at;            /* the lowest value for which a sleeper waits; UINT64_MAX: none sleeps */
  struct watermark_sleeper *sleepers;  /* lowest awaited value first; under the lock, like wake_at */
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

/* What the allocator itself counted, where it offers counts: our own allocators do, with their tunable stats. */
enum { ALLOCATOR_STATS = 64, ALLOCATOR_STAT_NAME_BYTES = 32 };
struct allocator_stats {
  uint32_t count; /* 0: the allocator counts nothing */
  struct {
    char name[ALLOCATOR_STAT_NAME_BYTES];
    uint64_t value;
  } stats[ALLOCATOR_STATS];
};

/* The library whose malloc was called. */
struct malloc_library {
  char path[PATH_MAX];              /* as the linker has it; "": not known, or the null allocator */
  char build_id[ELF_BUILD_ID_TEXT]; /* "": it has none */
};

struct replay_result {
  struct run_spec spec;
  uint32_t pass;                               /* its turn */
  char path[PATH_MAX], origins_path[PATH_MAX]; /* of the workload and the origins, for errors */

  _Atomic uint32_t phase;
  _Atomic uint32_t pacing_threads;                /* asleep until the recorded time */
  _Atomic uint32_t live_threads, blocked_threads; /* blocked: in a wait that only another thread ends */
  _Atomic uint32_t failed;                        /* 1: `error` is being written, 2: it is written */
  _Atomic uint64_t done;                          /* ops done by all threads, in passes that sample memory */
  _Atomic uint32_t died_thread;                   /* thread that received a fatal signal, plus 1 */
  struct error error;
  char fault[480]; /* what the allocator did wrong; "": it is not at fault */

  bool clock_follows, clock_steps; /* the allocator's clock followed recorded time, or even steps where no times
                                      are known (recorded_clock.h) */
  bool aslr;                       /* addresses were randomised; written by the parent's child */
  bool malloc_is_of_libc;          /* no preloaded library defines it */
  struct malloc_library malloc;
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

  uint64_t wall_ns, cpu_ns;                /* cpu_ns: of the replaying threads, less what they spent waiting */
  uint64_t startup_page_faults;            /* both kinds, up to main */
  uint64_t startup_huge_pages;             /* those that the process has at main, in passes that sample memory */
  uint64_t page_faults, page_faults_major; /* both kinds; the engine's own subtracted from the first */
  struct allocator_stats allocator_stats;

  uint32_t thread_count;
  struct watermark completed[]; /* one per thread: ops it has done; then one more, and the pass's figures */
};

/* Returns the bytes of the shared area, and where the pass's figures are in it: aligned to a cache line. */
static inline uint64_t result_bytes(uint32_t threads, uint64_t figures_bytes) {
  return sizeof(struct replay_result) + (threads + 1ull) * sizeof(struct watermark) + figures_bytes;
}
static inline void *result_figures(struct replay_result *result) {
  return &result->completed[result->thread_count + 1ull];
}
