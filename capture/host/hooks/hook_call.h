/* SPDX-License-Identifier: MIT */
/* What a hook knows of its call, and the event that it becomes. */
#pragma once

#include "capture/host/producer.h"

/* calls.def's columns as constants. */
enum {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  HAS_SIZE_##ident = size, HAS_PARAM_##ident = param != NONE, HAS_COUNT_##ident = param == COUNT,
#include "core/trace/calls.def"
};

static inline bool call_has_param(uint8_t op) {
  switch (op) {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  case id:                                                                                                             \
    return HAS_PARAM_##ident;
#include "core/trace/calls.def"
  default:
    return false;
  }
}
static inline bool call_has_size(uint8_t op) {
  switch (op) {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  case id:                                                                                                             \
    return HAS_SIZE_##ident;
#include "core/trace/calls.def"
  default:
    return false;
  }
}
static inline bool call_is_new(uint8_t op) {
  return op >= CALL_new && op <= CALL_new_array_aligned_nothrow;
}
static inline bool call_has_count(uint8_t op) {
  return op == CALL_calloc || op == CALL_reallocarray;
}

static inline uint64_t product(uint64_t size, uint64_t count) {
  uint64_t bytes;
  return __builtin_mul_overflow(size, count, &bytes) ? UINT64_MAX : bytes;
}

/* What the program called, and with which sizes. It is passed by value, so that the compiler keeps its members in
   registers. */
struct hook_call {
  uint8_t op;
  bool has_size;          /* of a release: the program passes the object's size */
  bool small;             /* size is below RECORD_QUICK_BYTES */
  uint64_t request_bytes; /* size times count */
  uint64_t size;
  const uint64_t *param; /* NULL: none */
};

/* The event by which a step of that call at that address is recorded. */
static inline __attribute__((always_inline)) struct producer_event step_of(struct hook_call call, const void *address) {
  return (struct producer_event){
      .op = call.op, .address = address, .word = call.size, .param = call.param, .small = call.small};
}

/* The call of an op that is known only at run time. */
static inline struct hook_call call_of_op(uint8_t op, const struct hook_sizes *sizes) {
  struct hook_call call = {.op = op, .has_size = call_has_size(op), .request_bytes = sizes->size, .size = sizes->size};
  if (call_has_param(op))
    call.param = &sizes->param;
  if (call_has_count(op))
    call.request_bytes = product(sizes->size, sizes->param);
  return call;
}

/* A call of an operator new that an exception may leave, on the stack of its hook. in.producer NULL: in state IDLE.
   After a longjmp, the newest one may be of a call that was left; no exception then finds it, but those inside new
   calls find these. */
struct new_call {
  struct new_call *outer;
  struct producer_entry in;
  struct hook_sizes sizes;
  uint8_t op;
};
extern __thread struct new_call *new_newest __attribute__((tls_model("initial-exec"), visibility("hidden")));

static inline void new_begins(struct new_call *call, struct producer_entry in, uint8_t op, struct hook_sizes sizes) {
  *call = (struct new_call){new_newest, in, sizes, op};
  atomic_signal_fence(memory_order_seq_cst);
  new_newest = call;
}
static inline void new_ends(const struct new_call *call) {
  new_newest = call->outer;
}

/* All hooks write records and tags by the functions of producer.h and steps.h alone, which the models of tests/model
   check: to name these here is an error. */
#pragma GCC poison record_put record_put_words ownership_stamp_and_mark ownership_claim ownership_take os_replace_own
