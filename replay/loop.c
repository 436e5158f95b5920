#include "replay/loop.h"

#include "replay/call.h"
#include "replay/memory.h"
#include "replay/order.h"
#include "replay/threads.h"
#include "replay/touch.h"
#include "replay/verify.h"

#include <inttypes.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* What the words before an op word said about it. */
struct extras {
  uint64_t size_high, param, touched;
};
static const struct extras NO_EXTRAS = {.param = 1};

/* The object that a call was refused: everything about it is left out from here on. */
static const struct object MISSING = {NULL, OBJECT_MISSING};
static const struct object EMPTY = {NULL, 0};

/* Stands for the slot of an op that has none. */
static __thread struct object no_object;

/* Acquires: what became of the object that the call was to make. */
static ALWAYS_INLINE void keep_answer(struct worker *worker, struct object *object, const struct op *op, void *answer) {
  uint64_t old_bytes = op->pointer ? object->size_bytes : 0;
  if (unlikely(!answer) && op->request_bytes > 0) {
    worker->failed_calls++;
    if (!op->pointer)
      *object = MISSING; /* a realloc that failed leaves the old object as it was */
    return;
  }
  object->pointer = answer;
  object->size_bytes = op->request_bytes;
  if (answer)
    touch_object(engine.touch, answer, old_bytes, op->request_bytes, op->touched);
}

/* The allocator gave an object where the recorded one gave none: realloc to size 0. Nobody will free it. */
static __attribute__((noinline)) void free_unwanted(void *object) {
  allocator.free(object);
}

static ALWAYS_INLINE void make_call(struct worker *worker, struct object *object, struct call_plan plan,
                                    const struct op *op, const enum replay_pass pass) {
  uint64_t cycles = 0;
  void *answer = call_entry(plan.entry, op, pass == PASS_TIME, &cycles);
  if (pass == PASS_TIME) {
    struct replay_call *call = &worker->calls[op->call & CALL_ID_MASK];
    call->count++;
    call->cycles_total += cycles;
    call->cycles_max = cycles > call->cycles_max ? cycles : call->cycles_max;
    histogram_add(&call->histogram, cycles);
  }
  if (plan.traits & CALL_ACQUIRES) {
    keep_answer(worker, object, op, answer);
  } else if (plan.traits & CALL_RELEASES) {
    *object = EMPTY;
    if (unlikely(answer != NULL))
      free_unwanted(answer);
  }
}

/* The op that the word and its extras say, with the call's plan; its pointer is not known yet. */
static ALWAYS_INLINE struct op decode(struct worker *worker, const uint64_t *word, const struct extras *extras,
                                      struct call_plan plan) {
  struct op op = {
      .call = word_code(*word), .slot = word_slot(*word), .param = extras->param, .touched = extras->touched};
  op.size_bytes = op.request_bytes = word_size_low(*word) | extras->size_high;
  if ((plan.traits & CALL_COUNTED) && __builtin_mul_overflow(op.size_bytes, op.param, &op.request_bytes))
    op.request_bytes = UINT64_MAX;
  if (unlikely(plan.traits & CALL_UNUSUAL)) {
    if (plan.traits & CALL_ILLEGAL)
      engine_fail(word, "call byte 0x%02x", op.call);
    worker->folded[op.call & CALL_ID_MASK] += (plan.traits & CALL_FOLDED) != 0;
  }
  return op;
}

static ALWAYS_INLINE struct object *find_object(const uint64_t *word, const struct op *op, struct call_plan plan) {
  if (op->slot < engine.map.header.slots)
    return &engine.objects[op->slot];
  if (!(plan.traits & CALL_SLOTLESS) || op->slot != WORKLOAD_NO_SLOT)
    engine_fail(word, "slot %" PRIu32 " of %" PRIu32, op->slot, engine.map.header.slots);
  return &no_object;
}

static ALWAYS_INLINE int64_t live_bytes(const struct object *object) {
  return object->size_bytes == OBJECT_MISSING ? 0 : (int64_t)object->size_bytes;
}

/* One replayed op: find its object, make the call, keep the answer. */
static ALWAYS_INLINE void replay_op(struct replay_thread *self, const uint64_t *word, const struct extras *extras,
                                    const enum replay_pass pass) {
  struct worker *worker = self->worker;
  struct call_plan plan = call_plans[word_code(*word)];
  struct op op = decode(worker, word, extras, plan);
  struct object *object = find_object(word, &op, plan);
  int64_t live_before = live_bytes(object);
  /* Masked, not branched: acquires and releases may come in an order that no predictor learns; one such branch, that of
     the call itself, is enough. */
  op.pointer = (void *)((uintptr_t)object->pointer & -(uintptr_t)(plan.traits & CALL_TAKES));
  if (unlikely(object->size_bytes == OBJECT_MISSING) && (plan.traits & CALL_TAKES)) {
    worker->skipped++;
    if ((plan.traits & (CALL_RELEASES | CALL_ACQUIRES)) == CALL_RELEASES)
      *object = EMPTY;
  } else if (pass == PASS_VERIFY) {
    verify_op(self, object, plan, &op);
  } else {
    make_call(worker, object, plan, &op, pass);
  }
  if (pass == PASS_MEMORY)
    memory_after_op(worker, live_bytes(object) - live_before);
}

/* A word that is not an op: returns false where the stream ends. */
static ALWAYS_INLINE bool obey(struct replay_thread *self, const uint64_t *word, struct extras *extras,
                               uint64_t *position, const enum replay_order order) {
  switch (word_code(*word)) {
  case WORD_SIZE_HIGH:
    extras->size_high = word_payload(*word) << 24;
    return true;
  case WORD_PARAM:
    extras->param = word_payload(*word);
    return true;
  case WORD_TOUCHED:
    extras->touched = word_payload(*word);
    return true;
  case WORD_WAIT:
    if (order != ORDER_RECORDED) /* the baton implies it */
      order_wait(self, word);
    return true;
  case WORD_MARK:
    *position = word_payload(*word);
    if (*position >= engine.op_limit)
      return false;
    order_mark(self, *position);
    return true;
  case WORD_START:
    threads_start(word_wait_thread(*word), word, *position);
    return true;
  case WORD_END:
    return false;
  default:
    engine_fail(word, "unknown word 0x%02x", word_code(*word));
  }
}

static ALWAYS_INLINE void replay_words(struct replay_thread *self, const enum replay_pass pass,
                                       const enum replay_order order) {
  struct stream *stream = &self->worker->stream;
  struct gate *gate = &engine.completed[self->number];
  struct extras extras = NO_EXTRAS;
  uint64_t position = 0, completed = 0, granted = 0;
  const uint64_t ops = engine.map.op_counts[self->number];
  /* Kept out of the stream, whose members the compiler would have to store and load again at every call. */
  const uint64_t *at = NULL, *end = NULL, *word = NULL;
  for (;;) {
    if (unlikely(at == end)) {
      if (!stream_refill(stream))
        engine_fail(word, "the stream of thread %" PRIu32 " has no END", self->number);
      at = stream->at;
      end = stream->end;
    }
    word = at++;
    if (unlikely(word_code(*word) >= WORD_SIZE_HIGH)) {
      if (!obey(self, word, &extras, &position, order))
        break;
      continue;
    }
    if (unlikely(completed == ops))
      engine_fail(word, "thread %" PRIu32 " has more ops than its count, %" PRIu64, self->number, ops);
    if (order == ORDER_RECORDED && completed == granted)
      granted = order_next_run(self, completed);
    replay_op(self, word, &extras, pass);
    extras = NO_EXTRAS;
    gate_publish(gate, ++completed);
  }
  self->worker->ops += completed;
  /* Nobody shall wait for what is left out; with the null allocator that does no harm. */
  if (position >= engine.op_limit)
    gate_publish(gate, UINT64_MAX);
  else if (completed != ops)
    engine_fail(word, "thread %" PRIu32 " ends after %" PRIu64 " ops of %" PRIu64, self->number, completed, ops);
}

#define LOOP(name, pass, order)                                                                                        \
  static void name(struct replay_thread *self) {                                                                       \
    replay_words(self, pass, order);                                                                                   \
  }
LOOP(time_recorded, PASS_TIME, ORDER_RECORDED)
LOOP(time_causal, PASS_TIME, ORDER_CAUSAL)
LOOP(time_window, PASS_TIME, ORDER_WINDOW)
LOOP(memory_recorded, PASS_MEMORY, ORDER_RECORDED)
LOOP(memory_causal, PASS_MEMORY, ORDER_CAUSAL)
LOOP(memory_window, PASS_MEMORY, ORDER_WINDOW)
LOOP(bare_recorded, PASS_BARE, ORDER_RECORDED)
LOOP(bare_causal, PASS_BARE, ORDER_CAUSAL)
LOOP(bare_window, PASS_BARE, ORDER_WINDOW)
LOOP(verify_recorded, PASS_VERIFY, ORDER_RECORDED)
LOOP(verify_causal, PASS_VERIFY, ORDER_CAUSAL)
LOOP(verify_window, PASS_VERIFY, ORDER_WINDOW)

loop_body *loop_for(enum replay_pass pass, enum replay_order order) {
  static loop_body *const loops[4][3] = {
      [PASS_TIME] = {time_recorded, time_causal, time_window},
      [PASS_MEMORY] = {memory_recorded, memory_causal, memory_window},
      [PASS_BARE] = {bare_recorded, bare_causal, bare_window},
      [PASS_VERIFY] = {verify_recorded, verify_causal, verify_window},
  };
  return loops[pass][order];
}
