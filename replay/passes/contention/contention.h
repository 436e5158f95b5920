/* SPDX-License-Identifier: MIT */
/* The contention pass: waits of threads inside calls of the allocator.

   Job: mark when a thread is in a call; record each wait that trap.h observes there, by call, size class and lock, and
   the context switches within calls. Waits outside of calls (the engine's own, and those of the allocator's own
   threads) are only counted. Waits of threads that spin without a system call are not seen. Invariants: a thread's mark
   is its own; rows are added by atomic steps, as the handler runs wherever a thread waits; nothing in the engine's
   process allocates or locks; each wait is in exactly one row or one `overflow` cell, so sums by call, by size and by
   lock are the same. */
#pragma once

#include "core/trace/event.h"
#include "replay/parent/run.h"
#include "replay/passes/contention/trap.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* at_once: waits that the kernel refused, as the lock's word had changed meanwhile. */
struct wait_sums {
  _Atomic uint64_t count, at_once, time_ns, max_ns;
};

/* Waits of one kind, in one kind of call, of one size class, at one address: a futex's lock word, else that of the
   instruction that made the system call, or of the one behind the call of sched_yield(). key 0: a free row. */
struct wait_row {
  _Atomic uint64_t key; /* wait_key */
  struct wait_sums sums;
};

enum {
  WAIT_ROWS = 1 << 14,                   /* a power of two */
  WAIT_CLASSES = 32,                     /* size_class fits */
  WAIT_CALL_THREAD_END = CALL_LIMIT - 1, /* not a call: the allocator's work when a thread ends */
  LOADED_OBJECTS = 64,
  ARENAS_LIMIT = 1024,
};

/* Returns 0 only for addresses of 2^50 and more, which have no key. */
static inline uint64_t wait_key(uint64_t address, enum wait_kind kind, uint8_t call, unsigned size_class) {
  uint64_t what = ((uint64_t)kind << 11 | (uint64_t)(call & (CALL_LIMIT - 1)) << 5 | size_class) << 1 | 1;
  return address >> 50 ? 0 : address << 14 | what;
}
static inline uint64_t wait_key_address(uint64_t key) {
  return key >> 14;
}
static inline enum wait_kind wait_key_kind(uint64_t key) {
  return (enum wait_kind)(key >> 12 & 3);
}
static inline uint8_t wait_key_call(uint64_t key) {
  return key >> 6 & (CALL_LIMIT - 1);
}
static inline unsigned wait_key_size_class(uint64_t key) {
  return key >> 1 & (WAIT_CLASSES - 1);
}

/* A loaded file: its addresses, and what to subtract from one to get the file's own address. */
struct loaded_object {
  uint64_t first, last, bias;
  char path[PATH_MAX];
};

struct contention {
  bool switches_known;      /* context switches can be detected cheaply (os_switch.h) */
  uint64_t trap_ns;         /* the cost of observing one wait, measured before the first op */
  _Atomic uint64_t outside; /* waits outside of calls: the engine's own, and others */
  _Atomic uint64_t voluntary[CALL_LIMIT], involuntary[CALL_LIMIT]; /* context switches within calls */
  struct wait_row rows[WAIT_ROWS];
  struct wait_sums overflow[WAIT_KINDS][CALL_LIMIT][WAIT_CLASSES]; /* no row was free: of unknown address */
  uint32_t arena_count;
  uint64_t arenas[ARENAS_LIMIT]; /* addresses of locks that are glibc's arenas (contention.c) */
  uint32_t object_count;
  struct loaded_object objects[LOADED_OBJECTS];
};

/* struct pass, report: adds "contention" (docs/formats/RESULTS.md). Names of locks are from this machine's files. */
void contention_report(json_t *into, const struct run *run);
