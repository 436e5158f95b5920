/* SPDX-License-Identifier: MIT */
/* Which thread waits for which (WORKLOAD.md, Waiting): an op on a slot waits for the op of another thread that used the
   slot last, unless an earlier wait covers it.

   The writer of ops keeps one struct waits per thread of the workload, and the word of waits_last in each slot. Not
   thread-safe. */
#pragma once

#include "core/workload/workload_write.h"

#include <stdbool.h>
#include <stdint.h>

/* Peers that a thread remembers having waited for. Measured on a storm of remote frees among 64 threads: remembering
   more saves no words. */
enum { WAITS_REMEMBERED = 8 };

struct waits {
  struct {
    uint32_t thread;
    uint64_t ops;
  } done[WAITS_REMEMBERED];         /* the thread has waited for that many ops of that peer; direct-mapped by peer */
  uint64_t after[WAITS_REMEMBERED]; /* the argument of waits_note, in the form of waits_last */
};

/* The thread that used a slot last, and its number of completed ops, the use included; 0: none yet. */
enum { WAITS_THREAD_BITS = 20 };
static inline uint64_t waits_last(uint32_t thread, uint64_t ops) {
  return ops << WAITS_THREAD_BITS | thread;
}

/* In the program itself the thread continued only after a peer had completed that many ops (waits_last): a wait for
   that peer may cover all of them, and then replaces later waits. */
static inline void waits_note(struct waits *waits, uint64_t last) {
  waits->after[(last & ((1u << WAITS_THREAD_BITS) - 1)) % WAITS_REMEMBERED] = last;
}

/* Is there no other thread to wait for? */
static inline bool waits_none(uint32_t thread, uint64_t last) {
  return last == 0 || ((uint32_t)last & ((1u << WAITS_THREAD_BITS) - 1)) == thread;
}

/* Between workload_begin_op and workload_put_op of the thread: writes the wait for the slot's last user, if one is
   due. */
static inline void waits_put(struct waits *waits, struct workload_writer *writer, uint32_t thread, uint64_t last) {
  uint32_t peer = (uint32_t)last & ((1u << WAITS_THREAD_BITS) - 1);
  uint64_t ops = last >> WAITS_THREAD_BITS;
  if (waits_none(thread, last))
    return;
  unsigned place = peer % WAITS_REMEMBERED;
  if (waits->done[place].thread == peer && waits->done[place].ops >= ops)
    return;
  uint64_t after = waits->after[place];
  if (after > last && ((after ^ last) & ((1u << WAITS_THREAD_BITS) - 1)) == 0)
    ops = after >> WAITS_THREAD_BITS;
  waits->done[place].thread = peer;
  waits->done[place].ops = ops;
  workload_put_wait(writer, thread, peer, ops);
}
