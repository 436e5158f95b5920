/* SPDX-License-Identifier: MIT */
/* The contention pass: waits of threads inside calls of the allocator.

   Job: mark when a thread is in a call; record each wait that trap.h observes there, by call, size class and lock, and
   the context switches within calls. Waits outside of calls (the engine's own, and those of the allocator's own
   threads) are only counted. Not its job: observing waits (trap.h), names of locks (places.h, the parent). Waits of
   threads that spin without a system call are not seen. Invariants: a thread's mark is its own; rows are added by
   atomic steps, as the handler runs wherever a thread waits; nothing here allocates or locks. */
#pragma once

#include "core/base/os.h"
#include "core/base/os_switch.h"
#include "replay/engine/result.h"

struct contention_mark {
  bool inside; /* of a call */
  uint8_t call;
  unsigned size_class;
  volatile uint64_t *switch_word;  /* of the thread (os_switch.h) */
  uint64_t no_switch_word;         /* used where the thread has none */
  uint64_t voluntary, involuntary; /* context switches of the thread, as last read */
};

extern __thread struct contention_mark contention_mark;

/* The value that arms a switch word. Set by contention_setup. */
extern uint64_t contention_switch_armed;

/* Call before the first op, and before any other thread starts. Where no filter can be installed, filter_error has the
   reason. */
void contention_setup(struct contention *contention);

/* Call in each thread that replays, before its first op. */
void contention_begin_thread(void);

/* The calling thread has replayed its last op: what the allocator still does in it counts as WAIT_CALL_THREAD_END. */
void contention_thread_ends(void);

/* Call when all threads have ended: finds what is loaded where, and which locks are arenas. */
void contention_end(void);

/* Out of line, as it is rare. */
void contention_was_off(void);
void contention_switched_inside(void);

/* Call these around each call. bytes: of the object that the call acquires or releases. */
static inline void contention_enter(uint8_t call, uint64_t bytes) {
  struct contention_mark *mark = &contention_mark;
  if (__builtin_expect(*mark->switch_word == 0, 0))
    contention_was_off();
  *mark->switch_word = contention_switch_armed;
  mark->call = call & CALL_ID_MASK;
  mark->size_class = size_class(bytes);
  /* A signal handler of this thread reads it. */
  atomic_signal_fence(memory_order_seq_cst);
  mark->inside = true;
  atomic_signal_fence(memory_order_seq_cst);
}

static inline void contention_leave(void) {
  atomic_signal_fence(memory_order_seq_cst);
  contention_mark.inside = false;
  if (__builtin_expect(*contention_mark.switch_word == 0, 0))
    contention_switched_inside();
}
