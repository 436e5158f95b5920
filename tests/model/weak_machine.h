/* SPDX-License-Identifier: MIT */
/* Performs a few short threads in every order that a processor may: is there an order that fulfils the request?

   Job: the orders of ARMv8 and of x86. A thread is a straight line of operations; a branch is a load with the value
   that it must read on the path taken. Each operation has parts, its reading and its writing, which are performed one
   at a time, in any order that the rules of the machine allow. Memory is multi-copy atomic: all other threads see a
   write at once, its own thread sees it before. Not its job: the meaning of the threads (weak_protocol.h). Invariants:
   the model allows what ARMv8 does, with one exception: an exchange waits for its thread's earlier writes to the same
   place. It allows more than ARMv8 in these: a load with acquire semantics waits for a store with release semantics
   before it only where both are sequentially consistent (so that it may be LDAPR), an exchange is not a barrier for
   operations after its reading, reading the counter waits only for ISB, and addresses do not keep stores from going
   ahead. */
#pragma once

#include "core/test/usual.h"

enum { WEAK_THREADS = 3, WEAK_OPS = 32, WEAK_PLACES = 6, WEAK_VALUES = 8 };

enum weak_machine { WEAK_ARMV8, WEAK_X86 };

enum weak_kind {
  WEAK_LOAD,
  WEAK_STORE,
  WEAK_EXCHANGE, /* or compare-and-exchange that succeeds */
  WEAK_STAMP,    /* reads the counter */
  WEAK_BARRIER,  /* DMB */
  WEAK_COMPLETE, /* DSB */
  WEAK_FLUSH,    /* ISB */
  WEAK_LFENCE,   /* x86's */
};

enum weak_expect { WEAK_ANY, WEAK_IS, WEAK_IS_NOT };

enum { WEAK_PRIVATE = WEAK_PLACES }; /* a place that no other thread uses and nothing is written to */

struct weak_op {
  enum weak_kind kind;
  uint8_t place, value;
  enum weak_expect expect; /* of the value read: otherwise this is not the path that the thread took */
  uint8_t expected;
  bool acquire, release, sequential;
  bool no_branch;   /* the thread continues in the same way whatever value it reads */
  bool after_stamp; /* its address depends on the last stamp before it */
};

struct weak_thread {
  struct weak_op op[WEAK_OPS];
  unsigned count;
};

/* A stamp, either a reading of the counter or an exchange: which operation of which thread. */
struct weak_place_of_stamp {
  unsigned thread, op;
};

struct weak_run {
  enum weak_machine machine;
  struct weak_thread thread[WEAK_THREADS];
  unsigned threads;
  uint8_t memory[WEAK_PLACES];
  bool has_order; /* requires that `early` is read before `late` */
  struct weak_place_of_stamp early, late;
  bool has_end; /* requires that end_place holds end_value at the end */
  uint8_t end_place, end_value;
};

struct weak_result {
  bool possible;
  uint32_t states;
};

/* Is there an order in which every load reads what it must, and that fulfils the request? Prints the shortest such
   order to report unless that is NULL. Aborts when memory runs out, or if the threads are too long for a state_key. */
struct weak_result weak_explore(const struct weak_run *run, FILE *report);
