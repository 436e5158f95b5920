/* SPDX-License-Identifier: MIT */
/* The replay loop: a thread's words, one after the other. The heart of the engine.

   Job: decode words, keep the objects, make the calls. Invariants: one loop in the source, which each pass compiles for
   itself by PASS_LOOPS, once for each sort of order: its hooks are constants, so they are inlined, and a hook that it
   lacks costs nothing; each word is checked against the tables' bounds before use; without hooks and with the null
   allocator an op costs a few ns (make bench). */
#pragma once

#include "core/base/assert.h"
#include "core/base/os.h"
#include "replay/calls/call.h"
#include "replay/engine/order.h"
#include "replay/engine/recorded_clock.h"
#include "replay/engine/state.h"
#include "replay/engine/threads.h"
#include "replay/engine/watermark.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* One op, as hooks see it. */
struct step {
  struct replay_thread *self;
  struct worker *worker;
  void *own;             /* worker->own */
  struct object *object; /* of its slot */
  struct call_dispatch dispatch;
  const struct op *op;
};

/* What a pass does at each op. All are to be ALWAYS_INLINE, or out of line on purpose. */
struct loop_hooks {
  int64_t (*before_op)(const struct step *step);                  /* returns what after_op gets */
  void (*replace_op)(const struct step *step);                    /* instead of call, keeping the result, touching it */
  void *(*call)(const struct step *step);                         /* instead of the plain call: returns the object */
  void (*after_op)(const struct step *step, int64_t before);      /* also where the op was skipped */
  bool (*touch_begins)(const struct step *step, uint64_t *begin); /* an object is about to be touched. False: no more */
  void (*touch_ends)(const struct step *step, uint64_t begin);    /* it was; not after false */
};

/* Returns the bytes of the object that the call acquires or releases, which determine its size class. */
static ALWAYS_INLINE uint64_t step_bytes(const struct step *step) {
  return step->dispatch.traits & CALL_ACQUIRES ? step->op->request_bytes : step->object->size_bytes;
}

/* The contents of the words before an op word. */
struct extras {
  uint64_t size_high, param, touched, region;
};
static const struct extras NO_EXTRAS = {.param = 1};

/* What hooks get at each op: locals of the loop, which the compiler can keep in registers across calls. All else that
   an op needs is global, as x86's instructions reach globals without a register: so the loop's own variables keep
   theirs. */
struct frame {
  struct replay_thread *self;
  struct worker *worker;
  void *own;
};

/* An object whose acquire failed: all ops on it are skipped. */
static const struct object MISSING = {NULL, OBJECT_MISSING};
static const struct object EMPTY = {NULL, 0};

/* Used as the slot of an op that has none. */
static __thread struct object no_object;

/* Acquires: stores the call's result as the object. Returns whether there is one. */
static ALWAYS_INLINE bool keep_answer(const struct frame *frame, struct object *object, const struct op *op,
                                      const uint8_t traits, void *answer) {
  if (unlikely(!answer && op->request_bytes > 0)) {
    frame->worker->failed_calls++;
    if (!(traits & CALL_TAKES))
      *object = MISSING; /* a failed realloc leaves the old object unchanged */
    return false;
  }
  object->pointer = answer;
  object->size_bytes = op->request_bytes;
  return answer != NULL;
}

/* Writes to a new object, of which old_bytes were in use before. */
static ALWAYS_INLINE void touch_answer(const struct step *step, void *answer, uint64_t old_bytes,
                                       const struct loop_hooks *const hooks) {
  const struct op *op = step->op;
  uint64_t begin = 0;
  bool hooked = hooks->touch_begins && touching.policy != TOUCH_NONE && hooks->touch_begins(step, &begin);
  touch_object(answer, old_bytes, op->request_bytes, op->touched);
  if (hooked)
    hooks->touch_ends(step, begin);
}

/* The allocator returned an object where the recorded one returned none: realloc to size 0. Nothing else frees it. */
static __attribute__((noinline, unused)) void free_unwanted(void *object) {
  allocator.free(object);
}

static ALWAYS_INLINE void touch_for_realloc(const struct step *step, const struct loop_hooks *const hooks) {
  const struct op *op = step->op;
  uint64_t begin = 0;
  bool hooked = hooks->touch_begins && touching.policy != TOUCH_NONE && hooks->touch_begins(step, &begin);
  touch_before_realloc(op->pointer, step->object->size_bytes, op->request_bytes, op->touched);
  if (hooked)
    hooks->touch_ends(step, begin);
}

static ALWAYS_INLINE void make_call(const struct frame *frame, const struct step *step,
                                    const struct loop_hooks *const hooks) {
  const struct op *op = step->op;
  const uint8_t traits = step->dispatch.traits;
  struct object *object = step->object;
  uint64_t cycles;
  if ((traits & CALL_TAKES) && (traits & CALL_ACQUIRES) && op->pointer)
    touch_for_realloc(step, hooks);
  void *answer = hooks->call ? hooks->call(step) : call_entry(step->dispatch.entry, op, false, &cycles);
  if (traits & CALL_ACQUIRES) {
    uint64_t old_bytes = traits & CALL_TAKES ? object->size_bytes : 0;
    if (keep_answer(frame, object, op, traits, answer))
      touch_answer(step, answer, old_bytes, hooks);
  } else if (traits & CALL_RELEASES) {
    *object = EMPTY;
    if (unlikely(answer != NULL))
      free_unwanted(answer);
  }
}

/* The op that the word and its extras describe; its pointer is not looked up yet. */
static ALWAYS_INLINE struct op decode(const struct frame *frame, const uint64_t *at, const struct extras *extras,
                                      const struct call_dispatch dispatch) {
  struct op op = {.call = word_code(*at),
                  .slot = word_slot(*at),
                  .param = extras->param,
                  .touched = extras->touched,
                  .region = (uint8_t)extras->region};
  op.size_bytes = op.request_bytes = word_size_low(*at) | extras->size_high;
  if ((dispatch.traits & CALL_COUNTED) && __builtin_mul_overflow(op.size_bytes, op.param, &op.request_bytes))
    op.request_bytes = UINT64_MAX;
  if (unlikely(dispatch.traits & CALL_UNUSUAL)) {
    if (dispatch.traits & CALL_ILLEGAL)
      engine_fail(at, "call byte 0x%02x is not a legal call", op.call);
    frame->worker->substituted[op.call & CALL_ID_MASK] += (dispatch.traits & CALL_SUBSTITUTED) != 0 && !extras->region;
  }
  return op;
}

/* Out of line: else the check would keep what the message needs in registers. */
__attribute__((noreturn, noinline, unused)) static void fail_on_slot(const uint64_t *at) {
  engine_fail(at, "slot %" PRIu32 ", and there are %" PRIu32, word_slot(*at), engine.workload.header.slots);
}

static ALWAYS_INLINE struct object *find_object(const uint64_t *at, const struct op *op,
                                                const struct call_dispatch dispatch) {
  if (__builtin_expect(op->slot < engine.workload.header.slots, 1))
    return &engine.objects[op->slot];
  if (!(dispatch.traits & CALL_SLOTLESS) || op->slot != WORKLOAD_NO_SLOT)
    fail_on_slot(at);
  return &no_object;
}

/* Replays one op: find its object, make the call, keep the answer. at: its word. Where the dispatch is a constant, code
   that it rules out is not compiled. */
static ALWAYS_INLINE void replay_op(const struct frame *frame, const uint64_t *at, const struct extras *extras,
                                    const struct call_dispatch dispatch, const struct loop_hooks *const hooks) {
  struct op op = decode(frame, at, extras, dispatch);
  struct object *object = find_object(at, &op, dispatch);
  const struct step step = {frame->self, frame->worker, frame->own, object, dispatch, &op};
  int64_t before = hooks->before_op ? hooks->before_op(&step) : 0;
  op.pointer = dispatch.traits & CALL_TAKES ? object->pointer : NULL;
  if ((dispatch.traits & CALL_TAKES) && unlikely(object->size_bytes == OBJECT_MISSING)) {
    frame->worker->skipped++;
    if ((dispatch.traits & (CALL_RELEASES | CALL_ACQUIRES)) == CALL_RELEASES)
      *object = EMPTY;
  } else if (hooks->replace_op) {
    hooks->replace_op(&step);
  } else {
    make_call(frame, &step, hooks);
  }
  if (hooks->after_op)
    hooks->after_op(&step, before);
}

/* Under an order by turns. The thread that gets the turn joins the threads that ended before. */
static void wait_by_turns(struct replay_thread *self, const uint64_t *at) {
  if (turns_wait(self, at))
    threads_reap();
}

/* Obeys a word of order. Returns false where the stream ends. Out of line, as are all rare words: the frequent ops have
   the registers. */
static __attribute__((noinline)) bool follow_order_word(struct replay_thread *self, const uint64_t *at,
                                                        uint64_t *position, const bool turns) {
  switch (word_code(*at)) {
  case WORD_WAIT:
    if (turns)
      wait_by_turns(self, at);
    else
      order_wait(self, at);
    return true;
  case WORD_MARK:
    *position = word_payload(*at);
    if (*position >= engine.op_limit)
      return false;
    order_mark(self, *position);
    if (engine.clock_steps)
      recorded_clock_advance(*position * RECORDED_CLOCK_STEP_NS);
    return true;
  case WORD_TIME:
    if (engine.pass->time_passes)
      engine.pass->time_passes(word_payload(*at));
    recorded_clock_advance(word_payload(*at));
    if (engine.paced)
      pace_wait(self, word_payload(*at));
    return true;
  case WORD_START:
    threads_start(self, at, *position);
    return true;
  case WORD_END:
    return false;
  default:
    engine_fail(at, "unknown word 0x%02x", word_code(*at));
  }
}

/* Notes a word that changes the next op. Returns whether it is one. */
static ALWAYS_INLINE bool note_extra(struct extras *extras, const uint64_t word) {
  switch (word_code(word)) {
  case WORD_SIZE_HIGH:
    extras->size_high = word_payload(word) << 24;
    return true;
  case WORD_PARAM:
    extras->param = word_payload(word);
    return true;
  case WORD_TOUCHED:
    extras->touched = word_payload(word);
    return true;
  case WORD_REGION:
    extras->region = word_payload(word);
    return true;
  default:
    return false;
  }
}

__attribute__((noreturn)) static void end_without_end(const struct replay_thread *self, const uint64_t *at) {
  if (self->worker->stream.failed)
    engine_fail(NULL, "can't be read: %s",
                errno == EBADF ? "the allocator has closed its descriptor" : strerror(errno));
  engine_fail(at ? at - 1 : NULL, "the stream of thread %" PRIu32 " has no END", self->number);
}

/* Refills the stream's buffer when all of it was used: returns its first word. Behind its last word it puts an END
   as a guard, so that the loop needs no comparison at each op. */
static __attribute__((noinline)) const uint64_t *refill(const struct replay_thread *self, const uint64_t *at) {
  struct workload_stream *stream = &self->worker->stream;
  if (!workload_stream_refill(stream))
    end_without_end(self, at);
  stream->buffer[stream->end - stream->buffer] = WORD_END;
  return stream->at;
}

static ALWAYS_INLINE bool is_guard(const struct replay_thread *self, const uint64_t *at) {
  return at == self->worker->stream.end;
}

/* The two most frequent calls have their own branches and code, without what their dispatches rule out. Constants, not
   entries of call_dispatches: neither call is ever substituted. */
static const struct call_dispatch MALLOC = {CALL_malloc, CALL_ACQUIRES};
static const struct call_dispatch FREE = {CALL_free, CALL_TAKES | CALL_RELEASES};

/* Before an op, under an order by turns: waits for self's turn. Returns false where the thread has an op too many. */
static ALWAYS_INLINE bool take_turn(struct replay_thread *self, uint64_t completed, uint64_t *granted,
                                    const bool turns) {
  if (!turns || completed < *granted)
    return true;
  if (completed == engine.workload.op_counts[self->number])
    return false;
  *granted = turns_next(self, completed);
  threads_reap();
  return true;
}

/* Reads the words before an op that change it, from `at`, the first one. Returns the op's own. */
static __attribute__((noinline)) const uint64_t *collect_extras(const struct replay_thread *self, const uint64_t *at,
                                                                struct extras *extras) {
  while (note_extra(extras, *at)) {
    if (is_guard(self, ++at))
      at = refill(self, at);
  }
  if (extras->region > (engine.isolated ? WORKLOAD_MOST_REGIONS : 0))
    engine_fail(at, "an op in an unknown region of the isolated heap");
  if (word_code(*at) > WORD_TOUCHED)
    engine_fail(at, "a word of order between an op and the words that change it");
  return at;
}

static void end_of_stream(struct replay_thread *self, const uint64_t *place, uint64_t completed, bool cut_short) {
  uint64_t ops = engine.workload.op_counts[self->number];
  self->worker->ops += completed;
  /* No thread may wait for the ops that are left out. */
  if (cut_short)
    watermark_publish(&engine.completed[self->number], UINT64_MAX);
  else if (completed != ops)
    engine_fail(place, "thread %" PRIu32 " ends after %" PRIu64 " ops of %" PRIu64, self->number, completed, ops);
  else if (word_code(*place) != WORD_END)
    engine_fail(place, "thread %" PRIu32 " has more ops than its count, %" PRIu64, self->number, ops);
}

static ALWAYS_INLINE void replay_words(struct replay_thread *self, const struct loop_hooks *const hooks,
                                       const enum loop_sort sort) {
  const bool turns = sort == LOOP_BY_TURNS;
  const struct frame frame = {self, self->worker, self->worker->own};
  struct watermark *watermark = &engine.completed[self->number];
  uint64_t position = 0, completed = 0, granted = 0;
  const uint64_t *at = refill(self, NULL);
  for (;;) {
    if (word_code(*at) == CALL_malloc) {
      if (!take_turn(self, completed, &granted, turns))
        break;
      replay_op(&frame, at, &NO_EXTRAS, MALLOC, hooks);
    } else if (word_code(*at) == CALL_free) {
      if (!take_turn(self, completed, &granted, turns))
        break;
      replay_op(&frame, at, &NO_EXTRAS, FREE, hooks);
    } else if (word_code(*at) > WORD_TOUCHED) {
      if (is_guard(self, at)) {
        at = refill(self, at);
        continue;
      }
      /* A time is that of the thread's next op. Without its turn, threads that start would put clocks ahead. */
      if (turns && word_code(*at) == WORD_TIME && engine.spec->order == ORDER_RECORDED &&
          !take_turn(self, completed, &granted, turns))
        break;
      if (!follow_order_word(self, at, &position, turns))
        break;
      at++;
      continue;
    } else {
      __asm__("" : "+r"(at)); /* else gcc stores the code of each word, as it is needed again here */
      struct extras extras = NO_EXTRAS;
      if (word_code(*at) >= WORD_REGION)
        at = collect_extras(self, at, &extras);
      if (!take_turn(self, completed, &granted, turns))
        break;
      replay_op(&frame, at, &extras, call_dispatches[word_code(*at)], hooks);
    }
    HT_ASSERT(watermark_value(watermark) == completed);
    completed++;
    if (sort == LOOP_ALONE)
      watermark_show(watermark, completed);
    else
      watermark_publish(watermark, completed);
    at++;
  }
  end_of_stream(self, at, completed, position >= engine.op_limit);
}

/* Define loops of a pass; hooks: the name of a static const struct loop_hooks. PASS_LOOPS: NAME_freely and
   NAME_by_turns. */
#define PASS_LOOP(name, hooks, sort)                                                                                   \
  static void name(struct replay_thread *self) {                                                                       \
    replay_words(self, &hooks, sort);                                                                                  \
  }
#define PASS_LOOPS(name, hooks_freely, hooks_by_turns)                                                                 \
  PASS_LOOP(name##_freely, hooks_freely, LOOP_FREELY)                                                                  \
  PASS_LOOP(name##_by_turns, hooks_by_turns, LOOP_BY_TURNS)
