/* SPDX-License-Identifier: MIT */
/* What one run is to do: the one description of a run's settings.

   Job: the settings, as values. Invariants: the parent fills it in before the engine starts, and nothing changes
   afterwards. The engine has a copy, in which pointers mean nothing: they are the parent's. */
#pragma once

#include "replay/calls/touch.h"

#include <stdbool.h>
#include <stdint.h>

enum replay_order { ORDER_RECORDED, ORDER_CAUSAL, ORDER_WINDOW, ORDER_PACED, ORDER_RANDOM, ORDERS };

/* Orders in which one thread runs at a time (order.h). */
static inline bool order_by_turns(enum replay_order order) {
  return order == ORDER_RECORDED || order == ORDER_RANDOM;
}

enum { SPEC_WORDS = 64 }; /* values of an option that may be repeated */

struct spec_words {
  const char *texts[SPEC_WORDS + 1]; /* NULL behind the last */
  uint32_t count;
};

/* The engine's memory just before its first op, without an allocator under test: to be subtracted. */
struct baseline {
  uint64_t rss_anon_bytes, vm_size_bytes;
};

struct run_spec {
  enum replay_order order;
  uint64_t window; /* positions, ORDER_WINDOW */
  double speed;    /* ORDER_PACED */
  uint64_t seed;   /* ORDER_RANDOM */
  enum touch_policy touch;
  uint64_t touch_bound_bytes; /* touch.h */
  uint64_t op_limit;          /* replay only this many positions, to 64 ops; not orders by turns; 0: all */
  uint64_t disturb_lines;     /* cache lines read before each timed call */
  uint64_t warm_rounds;       /* TAKES_WARM: replays of the whole workload before the one that is measured */
  bool null_allocator;
  bool no_map;           /* the memory pass makes no memory map: two thirds of its time where objects are many */
  bool as_malloc;        /* all calls become malloc and free (call.h) */
  bool threads_to_cores; /* thread i runs only on the i-th allowed processor, cyclically */
  bool real_clock;       /* leave the allocator's clock alone (recorded_clock.h) */
  bool aslr;             /* leave address space randomisation as it is */
  bool baseline_only;    /* stop just before the first op */

  /* The parent's. */
  const struct pass *pass;              /* NULL: none was named */
  const char *path;                     /* of the workload */
  const char *output;                   /* NULL: standard output */
  struct spec_words preloads, settings; /* settings: NAME=VALUE */
  const char *loader;                   /* the dynamic linker of another C library; NULL: this process's own */
  struct spec_words libraries;          /* its folders of libraries */
  int progress_fd;                      /* -1: none */
  struct baseline baseline;             /* as measured before; UINT64_MAX: to be measured */
  double engine_cycles_per_op;          /* the same; < 0: to be measured */
  const char *checked;                  /* stamp of the workload's file when it was proved legal; NULL: it was not */
  const char *origins;                  /* TAKES_ORIGINS: file; NULL: none */
  struct spec_words at;                 /* TAKES_ORIGINS: positions to attribute at, as given */
  uint64_t positions;                   /* TAKES_ORIGINS: evenly spaced ones; UINT64_MAX: not given */
  bool order_given;

  /* Of the workload, once it was opened. */
  int workload_fd;
  uint32_t threads, slots;
  uint64_t ops;
  char stamp[128]; /* of its file; it is legal */
};
