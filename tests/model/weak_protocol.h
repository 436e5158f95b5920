/* SPDX-License-Identifier: MIT */
/* Recording threads and the collector as operations of weak_machine.h: each step of docs/methods/ORDERING.md with its
   fences, the passing on of an object, the tick, the mark, the cut, a record's way through a ring, and the watermarks
   of replays.

   Job: to build the threads, as the code has them or with one fence less. For this it runs the functions of
   ownership.h, ring.h and watermark.h themselves, with atomic operations that are logged here, and reads os_stamp's
   instructions; only plain accesses, and code that is in no header, are written by hand here. Not its job: to judge
   (weak_machine.h, and the test). Invariants: a thread that follows another has read, with acquire semantics, what the
   other wrote with release semantics, and nothing more: the minimum that a program needs to pass an object on.
   Up to three threads, each of which has taken a stamp elsewhere before: the first makes any step, the second one that
   follows it, a third claims, takes or marks the entry meanwhile, which holds any value at first. Not modelled:
   handlers (a processor's own accesses are in order for itself), more than one entry, longer runs, counters that are
   not the same on all processors. */
#pragma once

#include "tests/model/weak_machine.h"

/* Places of memory. */
enum { ENTRY, TICK, BATON, STOP, COUNTER, WORD_FIRST = ENTRY, WORD_SECOND = TICK, TAIL = STOP, WAITING = BATON };
enum { WATERMARK = ENTRY, WATERMARK_WAKE_AT = TICK };

/* Values of a tag entry: the tag of thread 0, 1 or 2 is its number plus 1. */
enum { UNTOUCHED = 0, SHARED = 4 };

/* The protocol as designed, and with something left out of it or in another order. */
enum weak_variant {
  WEAK_AS_DESIGNED,
  /* of a stamp, on ARMv8 */
  WEAK_NO_COMPLETE,         /* no DSB */
  WEAK_BARRIER_ALONE,       /* DMB in its place */
  WEAK_NO_FLUSH,            /* no ISB */
  WEAK_NO_ORDERED_LOAD,     /* no load whose address depends on the stamp */
  WEAK_UNORDERED_LOAD,      /* a load, but without acquire semantics */
  WEAK_LOAD_BEFORE_READING, /* a load, but its address does not depend on the stamp */
  /* of a stamp, on x86 */
  WEAK_NO_FIRST_LFENCE,
  WEAK_NO_SECOND_LFENCE,
  /* of a stamp that is taken from a counter in memory (--clock counter): by an atomic addition, or by a relaxed one */
  WEAK_COUNTED,
  WEAK_PLAIN_COUNTED,
  /* of a step */
  WEAK_NO_RECHECK,
  WEAK_CLAIM_STORES,
  WEAK_PLAIN_EXCHANGE, /* without acquire and release semantics, as all PLAIN variants */
  WEAK_PLAIN_CLAIM,
  WEAK_PLAIN_MARK,
  WEAK_PLAIN_RECHECK,
  /* of the tick */
  WEAK_TICK_AFTER_STAMP, /* a thread reads the tick after the stamp that it is to stand for */
  WEAK_STOP_BEFORE_TICK, /* recording is stopped, then the tick advanced */
  WEAK_PLAIN_STOP,
  WEAK_TICK_BEFORE_MARK, /* the tick is advanced, then the mark's stamp taken */
  WEAK_PLAIN_TICK,
  /* of the ring */
  WEAK_PLAIN_RECORD,
  WEAK_PLAIN_DRAIN,
  WEAK_PLAIN_TAIL,
  WEAK_PLAIN_ROOM, /* the host reads the tail in any order */
  /* of the watermark */
  WEAK_PLAIN_PUBLISHING,
  WEAK_PLAIN_WAITING,
  WEAK_UNFENCED, /* a fenced watermark publishes as another watermark does */
};

/* Was anything built since the last call that differs from the code? Also true of variants that change the threads. */
bool weak_is_changed(enum weak_variant variant);

/* The ways that a step can take. */
enum weak_step {
  STEP_NONE,
  STEP_INHERITS,     /* finds its own tag */
  STEP_CLAIMS,       /* finds the entry untouched, and claims it */
  STEP_TAKES,        /* exchanges, stamps, and finds its tag again; whatever it saw before */
  STEP_TAKES_TWICE,  /* another thread came in between */
  STEP_MARKS,        /* stamps, and marks the entry as shared */
  STEP_FINDS_MARKED, /* stamps, and finds it marked */
  STEP_GIVES_UP,     /* exchanges, stamps, finds another's tag, and stamps and marks */
  WEAK_STEPS,
};

struct weak_builder {
  struct weak_run *run;
  enum weak_variant variant;
};

/* Each appends to the thread. Those that take a stamp return the number of its operation. */
unsigned weak_stamp(const struct weak_builder *builder, unsigned thread);

/* *stamp: receives the operation of the step's own stamp; kept where the step inherits. */
void weak_step(const struct weak_builder *builder, unsigned thread, enum weak_step step, unsigned *stamp);

/* The thread has done what another thread waits for, and the other continues after it. */
void weak_hand_on(const struct weak_builder *builder, unsigned thread);
void weak_wait_for(const struct weak_builder *builder, unsigned thread);

/* Reads the tick, which has that value. */
void weak_read_tick(const struct weak_builder *builder, unsigned thread, uint8_t tick);

/* A mark: stamp, and tick 0 becomes 1. The cut: likewise, and recording is stopped. */
unsigned weak_mark(const struct weak_builder *builder, unsigned thread);
unsigned weak_cut(const struct weak_builder *builder, unsigned thread);

/* The thread finds recording stopped. */
void weak_find_stopped(const struct weak_builder *builder, unsigned thread);

/* The host writes record `number` into the slot; after_tail: once the collector is done with the one before. The
   collector reads record `number`, or finds that its first word is not what the host wrote; makes the slot zero. */
void weak_write_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool after_tail);
void weak_read_record(const struct weak_builder *builder, unsigned thread, uint8_t number, bool whole);
void weak_drain_record(const struct weak_builder *builder, unsigned thread);
void weak_set_tail(const struct weak_builder *builder, unsigned thread);

/* Written, then read by a thread that is about to sleep, or by one that would wake it: 1 at the one place, and
   0 at the other. */
void weak_set(const struct weak_builder *builder, unsigned thread, uint8_t place);
void weak_look(const struct weak_builder *builder, unsigned thread, uint8_t place);

/* The thread publishes a value at the watermark, and sees no sleeper; another finds it, and not what was written
 * before. */
void weak_publish(const struct weak_builder *builder, unsigned thread, bool fenced);
void weak_pass_watermark(const struct weak_builder *builder, unsigned thread);
