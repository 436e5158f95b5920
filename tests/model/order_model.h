/* SPDX-License-Identifier: MIT */
/* Explores every interleaving of a few threads that log malloc calls under the ownership-tag scheme
   (core/trace/FORMAT.md, Order; capture/), and judges whether merging them by inherited stamp is always a legal
   history.

   Job: the model and its exhaustive exploration. Not its job: memory ordering below sequential consistency, the real
   table's size, the collector.

   State: of a thread what it does next, the step being logged, its address and inherited stamp; of an address
   available, in a call or held by the program, thread and stamp of its last step, and touches since; of an entry its
   tag. The program may pass a held address to any thread at any moment; the allocator may hand out any available one.
   Each check, exchange, stamp and mark of docs/methods/ORDERING.md is one step. A release is logged before the real
   call, an acquire after it; a realloc is both, in place or to a new address taken before or after the old one is given
   back; a touch may overlap others. Every check may find that the tick has moved, and every event may be logged in
   either way: that covers every tick rate and every rule for switching. A thread that ends is followed by one that
   takes over its tag and starts with a stamp. Where handlers are modelled, one may come at any point of a step and
   record events, which have a stamp later than all before, and may put the thread's tag or the mark into any entry.

   Invariants: stamps are kept as ranks, so the state space is finite and its closure covers runs of any length. */
#pragma once

#include "core/test/usual.h"

enum { ORDER_MAX_THREADS = 3, ORDER_MAX_ADDRESSES = 3 };

/* The scheme as designed, and ways to get it wrong. */
enum order_variant {
  ORDER_AS_DESIGNED,         /* claim; or exchange, stamp, recheck; or stamp, then mark */
  ORDER_NO_RECHECK,          /* another thread's run can begin between exchange and stamp */
  ORDER_STAMP_THEN_EXCHANGE, /* another thread's event can fall between stamp and exchange */
  ORDER_MARK_THEN_STAMP,     /* another thread's run can begin between mark and stamp */
  ORDER_LOOK_THEN_STAMP,     /* the mark is skipped because of a look older than the stamp */
  ORDER_NO_MARK,             /* other threads take their own tag for the last one */
  ORDER_RELEASE_AFTER_CALL,  /* the address is handed out again before its release is logged */
  ORDER_REBIRTH_UNSTAMPED,   /* a new thread inherits a dead one's tag, but no stamp */
  ORDER_CLAIM_STORES,        /* an untouched entry is taken by a store: another thread may have been first */
  ORDER_LOOK_THEN_TAKE,      /* the slot is taken after the look: the step inherits a handler's stamp from in between */
  ORDER_TAKE_THEN_LOOK,      /* ... or before it: a handler's exchange in between makes the entry the thread's own */
  ORDER_SIDE_INHERITED,      /* a step inherits the stamp of a handler that came after its look */
  ORDER_SIDE_RESTAMPED,      /* a step gets another stamp after a handler, and its entry is not exchanged again */
};

struct order_config {
  unsigned threads, addresses, entries; /* address a uses tag entry a mod entries */
  bool ticks;                           /* any check may find that the tick has moved */
  bool stamp_each;                      /* any event may be logged in the stamp-each way */
  bool moves;                           /* realloc: a release step, then an acquire step */
  bool touches;                         /* malloc_usable_size and failed reallocs, concurrent with one another */
  bool deaths;                          /* an idle thread may end, and a new one take over its tag */
  bool handlers;                        /* a handler may come at any step and record events, which have stamps */
  enum order_variant variant;
};

struct order_result {
  bool exhausted; /* every reachable state was visited and all are legal */
  bool illegal;   /* an illegal history is reachable */
  uint32_t states;
  uint32_t depth; /* steps to the illegal history, else to the farthest state */
};

/* Breadth first. Prints the shortest path to an illegal history to report unless that is NULL. Aborts when memory runs
   out. */
struct order_result order_explore(const struct order_config *config, FILE *report);
