/* SPDX-License-Identifier: MIT */
/* The entry points. Each one decides whether its call is to be recorded, and records a release or touch before the real
   call, an acquire after it. errno stays as the real call left it. Compiled with -fno-builtin, so that the compiler
   assumes nothing about functions of these names. */
#include "capture/host/real/real.h"

#include "capture/host/inner_calls.h"
#include "capture/host/large.h"
#include "capture/host/process.h"
#include "capture/host/producer.h"
#include "capture/host/stacks/stack.h"
#include "capture/host/steps.h"
#include "core/base/assert.h"

#include <errno.h>

#define CALLER __builtin_return_address(0), os_stack_pointer()
/* An address in the hook's frame, or at its end, with the return address in the word before it. On x86 it is there;
   where a call leaves it in a register, it is stored in such a place. */
#if defined(__x86_64__)
#define FRAME __builtin_dwarf_cfa()
#else
#define FRAME ((void *const[]){__builtin_return_address(0), NULL} + 1)
#endif
#define EXPORT __attribute__((visibility("default")))

/* Each entry point exists twice. The exported form has only the common case, in as few instructions as possible: the
   thread is in no other hook, the real function calls no hook, the step needs no stamp, the ring has room. So the
   thread need not be marked as being in the real function, nor in the hook: a hook that acquires uses its producer only
   after the call, and a hook that releases ends in a jump. Everything else is in the slow form, which gets the caller's
   address. Instruction counts: docs/measurements/capture.md. */
#define SLOW static __attribute__((noinline))
#define DECL_PLUS_CALLER(...) (__VA_ARGS__, const void *caller, uintptr_t frame)
#define OWN_FRAME __builtin_frame_address(0)
#define ARGS_PLUS_CALLER(...) (__VA_ARGS__, CALLER)
#define DECL_PLUS_FRAME(...) (__VA_ARGS__, void *const *frame)
#define ARGS_PLUS_FRAME(...) (__VA_ARGS__, FRAME)
#define ARGS_PASS_FRAME(...) (__VA_ARGS__, frame)
#define ARGS_PLUS_PLACE(...) (__VA_ARGS__, place.caller, place.frame)

/* Each step has two forms: the plain one, and one for a call inside another, which may be a part of an operator. Where
   the thread was in no call, nothing is held (inner_calls.h), but at the end of an operator new. */
static inline bool is_inside(struct producer_entry in) {
  return __builtin_expect(in.was - PRODUCER_CALLING <= PRODUCER_RECORDING - PRODUCER_CALLING, 0);
}

SLOW void acquired_plain(struct producer_entry in, struct hook_call call, const void *result,
                         const struct record_columns *columns) {
  if (__builtin_expect(large_is(call.request_bytes), 0) && result)
    large_put(result, call.request_bytes);
  if (!result)
    call.op |= CALL_NULL_OUT;
  struct producer_event event = step_of(call, result);
  bool recorded = (!columns && producer_record_simulated(in, event)) || producer_record(in, event, columns);
  producer_report_event(in, recorded, result, call.request_bytes, NULL);
  producer_leave(in);
}

static __attribute__((noinline, cold)) void acquired_inner(struct producer_entry in, struct hook_call call,
                                                           const void *result, const struct record_columns *columns) {
  inner_settle(in, call.op, result);
  struct hook_call held = call;
  held.op |= result ? 0 : CALL_NULL_OUT;
  if (!inner_hold(in, held, result, columns)) {
    acquired_plain(in, call, result, columns);
    return;
  }
  if (result && large_is(call.request_bytes))
    large_put(result, call.request_bytes);
  producer_leave(in);
}

/* After a real call that acquires. result NULL: it failed. columns: NULL where none are recorded. */
static inline __attribute__((always_inline)) void acquired(struct producer_entry in, struct hook_call call,
                                                           const void *result, const struct record_columns *columns) {
  if (is_inside(in) || (call_is_new(call.op) && in.producer->held_count))
    acquired_inner(in, call, result, columns);
  else
    acquired_plain(in, call, result, columns);
}

/* Where a hook was called from. */
struct place {
  const void *caller;
  uintptr_t frame;
};

/* The request is in a struct hook_sizes, of which call_of_op makes a hook_call. The exported forms end in calls of the
   functions below, whose arguments all fit into registers. So these calls are jumps, and no value of the exported
   forms needs a register that they would have to save. */
/* After the real call, for a thread that is not in state IDLE, or has no producer. Returns result. */
SLOW void *acquired_no_producer(uint8_t op, struct hook_sizes sizes, void *result, struct place place) {
  struct producer_entry in = producer_enter_slow(PRODUCER_CALLING, place.caller, place.frame, NULL);
  if (in.producer)
    acquired(in, call_of_op(op, &sizes), result, NULL);
  return result;
}

/* Where the hook with that FRAME was called from. */
static inline struct place place_of(void *const *frame) {
  return (struct place){frame[-1], (uintptr_t)frame};
}

/* After the real call, where the step is not of the common case. False: nothing was recorded, and the thread is not in
   state IDLE. */
static inline __attribute__((always_inline)) bool acquired_stamped(struct hook_call call, bool large, void *result,
                                                                   uintptr_t frame) {
  struct producer_event event = step_of(call, result);
  struct producer *producer = producer_if_idle();
  if (!producer)
    return false;
  if (!large && result && producer_record_unstamped(producer, event))
    return true;
  producer_begin(producer, PRODUCER_RECORDING, frame);
  struct producer_entry in = {producer, PRODUCER_IDLE};
  if (!large && producer_record_stamped(producer, event))
    producer_leave(in);
  else
    acquired(in, call, result, NULL);
  return true;
}

/* The end of a hook that acquires, after its common case has failed. Returns result. A skipped call is detected before
   any registers have been saved. */
#define ACQUIRED_NOT_QUICK(ident)                                                                                      \
  SLOW void *ident##_stamped(struct hook_sizes sizes, void *result, void *const *frame) {                              \
    if (!acquired_stamped(call_of_op(CALL_##ident, &sizes), false, result, (uintptr_t)frame))                          \
      acquired_no_producer(CALL_##ident, sizes, result, place_of(frame));                                              \
    return result;                                                                                                     \
  }                                                                                                                    \
  SLOW void *ident##_not_quick(struct hook_sizes sizes, void *result, void *const *frame) {                            \
    return producer_may_skip() && producer_skip(frame[-1]) ? result : ident##_stamped(sizes, result, frame);           \
  }

/* The end of a hook that acquires in its exported form. */
#define ACQUIRED_QUICK(ident, got, size, param)                                                                        \
  if (__builtin_expect(producer_record_quick(producer_mine, step_of(CALL_AS(ident, size, param, true), got)), 1))      \
    return got;                                                                                                        \
  return ident##_not_quick((struct hook_sizes){size, param}, got, FRAME)

/* Before the release of an object that may be large: records how much of it is resident. Returns its request in bytes,
   0 if it is not large. */
static __attribute__((noinline, cold)) uint64_t releasing_large(struct producer_entry in, const void *object,
                                                                bool quick) {
  uint64_t bytes = large_take(object);
  if (!bytes)
    return 0;
  uint64_t touched = large_touched(object, bytes, quick);
  if (touched != LARGE_UNKNOWN)
    producer_note(in, RECORD_TOUCHED, object, touched);
  return bytes;
}

SLOW void releasing_plain(struct producer_entry in, enum producer_state calling, struct hook_call call,
                          const void *object) {
  if (!object)
    call.op |= CALL_NULL_IN;
  else if (__builtin_expect(large_may_be(object), 0) && call.op != CALL_malloc_usable_size)
    releasing_large(in, object, false);
  struct producer_event event = step_of(call, object);
  event.stamped = !call.has_size;
  bool recorded = producer_record_simulated(in, event) || producer_record(in, event, NULL);
  producer_report_event(in, recorded, NULL, 0, call.op == CALL_malloc_usable_size ? NULL : object);
  if (in.was != PRODUCER_RECORDING)
    producer_set_state(in.producer, calling);
}

static __attribute__((noinline, cold)) void releasing_inner(struct producer_entry in, enum producer_state calling,
                                                            struct hook_call call, const void *object) {
  if (inner_is_part(in, call.op, object)) {
    producer_set_state(in.producer, calling);
    return;
  }
  if (calling == PRODUCER_DELETE && in.was != PRODUCER_RECORDING)
    inner_deletes(in, object);
  releasing_plain(in, calling, call, object);
}

/* Before a real call that releases or touches. calling: the producer's state during that call. */
static inline __attribute__((always_inline)) void releasing(struct producer_entry in, enum producer_state calling,
                                                            struct hook_call call, const void *object) {
  if (is_inside(in)) {
    releasing_inner(in, calling, call, object);
    return;
  }
  if (calling == PRODUCER_DELETE && in.was != PRODUCER_RECORDING)
    inner_deletes(in, object);
  releasing_plain(in, calling, call, object);
}

/* Before the real call of a release that is not of the common case, which is then made in state IDLE. Precondition:
   state RECORDING. False: the object is of the bootstrap arena, and the real function must not be called. */
static inline __attribute__((always_inline)) bool releasing_stamped(struct producer *producer, struct hook_call call,
                                                                    const void *object) {
  struct producer_entry in = {producer, PRODUCER_IDLE};
  struct producer_event event = step_of(call, object);
  event.stamped = !call.has_size;
  bool real_one = !real_in_arena(object);
  if (!real_one)
    host_count_missing();
  else if (large_may_be(object) || !producer_record_stamped(producer, event))
    releasing(in, PRODUCER_CALLING, call, object);
  producer_leave(in);
  return real_one;
}

/* The complete uncommon case of a release, where the thread is in state IDLE. False: it is not, and nothing was
   done. */
static inline __attribute__((always_inline)) bool release_stamped(struct hook_call call, const void *object,
                                                                  uintptr_t frame, bool *real_one) {
  struct producer_event event = step_of(call, object);
  event.op |= object ? 0 : CALL_NULL_IN;
  struct producer *producer = producer_if_idle();
  if (!producer)
    return false;
  *real_one = true;
  if (producer_record_unstamped(producer, event))
    return true;
  producer_begin(producer, PRODUCER_RECORDING, frame);
  *real_one = releasing_stamped(producer, call, object);
  return true;
}

#define RELEASED_NOT_QUICK(ident, declaration, arguments, size, param, free_it)                                        \
  SLOW void ident##_stamped DECL_PLUS_FRAME declaration {                                                              \
    struct place place = place_of(frame);                                                                              \
    bool real_one;                                                                                                     \
    if (!release_stamped(QUICK_CALL_OF(ident, size, param), object, place.frame, &real_one))                           \
      ident##_slow ARGS_PLUS_PLACE arguments;                                                                          \
    else if (real_one)                                                                                                 \
      free_it;                                                                                                         \
  }                                                                                                                    \
  SLOW void ident##_not_quick DECL_PLUS_FRAME declaration {                                                            \
    if (!producer_may_skip() || real_in_arena(object) || !producer_skip(frame[-1]))                                    \
      ident##_stamped ARGS_PASS_FRAME arguments;                                                                       \
    else                                                                                                               \
      free_it;                                                                                                         \
  }

/* A resize has two steps: BEGIN before the real call, the event after it. */
SLOW struct resize resizing_plain(struct producer_entry in, const void *object) {
  struct resize resize = {object, true, 0};
  if (object) {
    if (__builtin_expect(large_may_be(object), 0))
      resize.large_bytes = releasing_large(in, object, true);
    struct producer_event begin = {.op = RECORD_BEGIN, .stamped = true, .address = object};
    resize.begun = producer_record_simulated(in, begin) || producer_record(in, begin, NULL);
    in.producer->open += resize.begun;
  }
  if (in.was != PRODUCER_RECORDING)
    producer_set_state(in.producer, PRODUCER_CALLING);
  return resize;
}

static inline __attribute__((always_inline)) struct resize resizing(struct producer_entry in, const void *object) {
  if (is_inside(in))
    inner_is_part(in, CALL_realloc, object);
  return resizing_plain(in, object);
}

SLOW void resized_plain(struct producer_entry in, struct hook_call call, struct resize resize, const void *result,
                        const struct record_columns *columns) {
  bool begun = resize.begun;
  if (__builtin_expect(large_is(call.request_bytes), 0) && result)
    large_put(result, call.request_bytes);
  else if (__builtin_expect(resize.large_bytes != 0, 0) && !result && call.request_bytes)
    large_put(resize.object, resize.large_bytes); /* it failed: the old object is still live */
  call.op |= (resize.object ? 0 : CALL_NULL_IN) | (result ? 0 : CALL_NULL_OUT);
  if (begun) { /* else it has been counted as dropped */
    struct producer_event event = step_of(call, result);
    bool recorded = (!columns && producer_record_simulated(in, event)) || producer_record(in, event, columns);
    producer_report_event(in, recorded, result, call.request_bytes,
                          result || call.request_bytes == 0 ? resize.object : NULL);
  }
  HT_ASSERT(!resize.object || !begun || !in.producer->ring || in.producer->open > 0);
  in.producer->open -= resize.object && begun;
  producer_leave(in);
}

static __attribute__((noinline, cold)) void resized_inner(struct producer_entry in, struct hook_call call,
                                                          struct resize resize, const void *result,
                                                          const struct record_columns *columns) {
  struct hook_call held = call;
  held.op |= CALL_NULL_IN | (result ? 0 : CALL_NULL_OUT);
  resize.begun = resize.begun && !inner_hold(in, held, result, columns);
  resized_plain(in, call, resize, result, columns);
}

static inline __attribute__((always_inline)) void resized(struct producer_entry in, struct hook_call call,
                                                          struct resize resize, const void *result,
                                                          const struct record_columns *columns) {
  if (__builtin_expect(in.was == PRODUCER_NEW && !resize.object, 0))
    resized_inner(in, call, resize, result, columns);
  else
    resized_plain(in, call, resize, result, columns);
}

/* Of musl's functions, those that acquire may call others of the malloc API, except malloc and realloc. */
#define MAY_CALL(ident) (CALL_##ident != CALL_malloc)
#define PARAM_OF(ident, value) (HAS_PARAM_##ident ? &(uint64_t){value} : NULL)
#define REQUEST(ident, size, param) (HAS_COUNT_##ident ? product(size, param) : (size))
#define CALL_AS(ident, size, param, small)                                                                             \
  ((struct hook_call){CALL_##ident, HAS_SIZE_##ident, small, REQUEST(ident, size, param), size, PARAM_OF(ident, param)})
#define CALL_OF(ident, size, param) CALL_AS(ident, size, param, false)
#define QUICK_CALL_OF(ident, size, param) CALL_AS(ident, size, param, (size) < RECORD_QUICK_BYTES) /* of a release */

/* The optional columns (latency, usable size, stacks) are recorded by the slow forms only. Where one is wanted,
   PRODUCER_SLOW replaces PRODUCER_IDLE, so that no hook is in its common case, and recordings without columns pay
   nothing for them. */
static inline bool has_columns(struct producer_entry in) {
  return in.was == PRODUCER_SLOW && (host_state.flags & ATTACH_COLUMNS);
}

/* The time before the real call; 0: its latency is not wanted. */
static inline uint64_t timing(struct producer_entry in) {
  return in.was == PRODUCER_SLOW && (host_state.flags & ATTACH_LATENCY) ? os_stamp() : 0;
}

/* The latency of the real call that began at `begin`, plus 1; 0: not known. */
static inline uint64_t timed(uint64_t begin) {
  if (!begin)
    return 0;
  uint64_t took = os_stamp() - begin;
  return took > host_state.clock_cost ? took - host_state.clock_cost + 1 : 1;
}

/* Fills in the columns for acquired and resized; NULL: none are wanted. */
static inline const struct record_columns *fill(struct record_columns *columns, struct producer_entry in,
                                                uint64_t begin, void *object, uint64_t request_bytes) {
  if (!has_columns(in))
    return NULL;
  *columns = (struct record_columns){.latency = timed(begin), .stack = stack_settings.area ? in.producer->stack : 0};
  if ((host_state.flags & ATTACH_USABLE) && object && !real_in_arena(object))
    columns->slack = trace_event_slack(request_bytes, real.malloc_usable_size(object));
  return columns;
}

/* After the real call of a release or touch, whose event has been recorded. */
static inline void released(struct producer_entry in, const void *object, uint64_t begin) {
  if (__builtin_expect(in.was == PRODUCER_DELETE, 0))
    inner_deleted(in, object);
  if (begin)
    producer_note(in, RECORD_LATENCY, object, timed(begin));
  producer_leave(in);
}

#define HOOK_ACQUIRE(ident, result, declaration, arguments, size, param)                                               \
  SLOW result ident##_slow DECL_PLUS_CALLER declaration {                                                              \
    struct producer_entry in = producer_enter_slow(PRODUCER_CALLING, caller, frame, OWN_FRAME);                        \
    struct record_columns columns;                                                                                     \
    uint64_t begin = timing(in);                                                                                       \
    result got = real.ident arguments;                                                                                 \
    if (in.producer)                                                                                                   \
      acquired(in, CALL_OF(ident, size, param), got, fill(&columns, in, begin, got, REQUEST(ident, size, param)));     \
    return got;                                                                                                        \
  }                                                                                                                    \
  ACQUIRED_NOT_QUICK(ident)                                                                                            \
  SLOW result ident##_large DECL_PLUS_FRAME declaration {                                                              \
    struct place place = place_of(frame);                                                                              \
    if (producer_may_skip() && producer_skip(place.caller))                                                            \
      return real.ident arguments;                                                                                     \
    result got = real.ident arguments;                                                                                 \
    if (!acquired_stamped(CALL_OF(ident, size, param), true, got, place.frame))                                        \
      acquired_no_producer(CALL_##ident, (struct hook_sizes){size, param}, got, place);                                \
    return got;                                                                                                        \
  }                                                                                                                    \
  EXPORT result ident declaration {                                                                                    \
    if (__builtin_expect(REQUEST(ident, size, param) >= host_state.quick_bytes[MAY_CALL(ident)], 0)) {                 \
      if (host_state.quick_bytes[MAY_CALL(ident)] == 0)                                                                \
        return ident##_slow ARGS_PLUS_CALLER arguments;                                                                \
      return ident##_large ARGS_PLUS_FRAME arguments;                                                                  \
    }                                                                                                                  \
    result got = real.ident arguments;                                                                                 \
    ACQUIRED_QUICK(ident, got, size, param);                                                                           \
  }

#define HOOK_RELEASE(ident, result, declaration, arguments, size, param)                                               \
  SLOW result ident##_slow DECL_PLUS_CALLER declaration {                                                              \
    if (__builtin_expect(real_in_arena(object), 0)) {                                                                  \
      host_count_missing();                                                                                            \
      return;                                                                                                          \
    }                                                                                                                  \
    struct producer_entry in = producer_enter_slow(PRODUCER_CALLING | PRODUCER_RELEASES, caller, frame, NULL);         \
    if (in.producer)                                                                                                   \
      releasing(in, PRODUCER_CALLING, CALL_OF(ident, size, param), object);                                            \
    uint64_t begin = timing(in);                                                                                       \
    real.ident arguments;                                                                                              \
    if (in.producer)                                                                                                   \
      released(in, object, begin);                                                                                     \
  }                                                                                                                    \
  RELEASED_NOT_QUICK(ident, declaration, arguments, size, param, real.ident arguments)                                 \
  EXPORT result ident declaration {                                                                                    \
    if (__builtin_expect(producer_record_quick(producer_mine, step_of(QUICK_CALL_OF(ident, size, param), object)), 1)) \
      real.ident arguments;                                                                                            \
    else                                                                                                               \
      ident##_not_quick ARGS_PLUS_FRAME arguments;                                                                     \
  }

/* A resize of an object of the bootstrap arena acquires a new object and copies the content. It is not recorded, as the
   old object never was. */
#define HOOK_RESIZE(ident, result, declaration, arguments, size, param)                                                \
  SLOW result ident##_slow DECL_PLUS_CALLER declaration {                                                              \
    if (real_in_arena(object)) {                                                                                       \
      host_count_missing();                                                                                            \
      return real_arena_move(object, PRODUCT(ident, size, param));                                                     \
    }                                                                                                                  \
    struct producer_entry in = producer_enter_slow(PRODUCER_CALLING, caller, frame, OWN_FRAME);                        \
    if (!in.producer)                                                                                                  \
      return real.ident arguments;                                                                                     \
    struct record_columns columns;                                                                                     \
    struct resize resize = resizing(in, object);                                                                       \
    uint64_t begin = timing(in);                                                                                       \
    result got = real.ident arguments;                                                                                 \
    resized(in, CALL_OF(ident, size, param), resize, got,                                                              \
            fill(&columns, in, begin, got, REQUEST(ident, size, param)));                                              \
    return got;                                                                                                        \
  }                                                                                                                    \
  SLOW result ident##_end_stamped(struct hook_sizes sizes, void *got, void *object, void *const *frame) {              \
    struct hook_call call = call_of_op(CALL_##ident, &sizes);                                                          \
    struct producer_entry in = {producer_if_idle(), PRODUCER_IDLE};                                                    \
    if (in.producer)                                                                                                   \
      producer_begin(in.producer, PRODUCER_RECORDING, (uintptr_t)frame);                                               \
    else                                                                                                               \
      in = producer_enter_slow(PRODUCER_CALLING, frame[-1], (uintptr_t)frame, NULL);                                   \
    if (in.producer)                                                                                                   \
      resized(in, call, (struct resize){object, true, 0}, got, NULL);                                                  \
    return got;                                                                                                        \
  }                                                                                                                    \
  SLOW result ident##_not_quick DECL_PLUS_FRAME declaration {                                                          \
    struct place place = place_of(frame);                                                                              \
    struct producer_entry in = {producer_if_idle(), PRODUCER_IDLE};                                                    \
    if (!in.producer && !real_in_arena(object) && producer_skip(place.caller))                                         \
      return real.ident arguments;                                                                                     \
    if (!in.producer)                                                                                                  \
      return ident##_slow ARGS_PLUS_PLACE arguments;                                                                   \
    producer_begin(in.producer, PRODUCER_RECORDING, place.frame);                                                      \
    if (real_in_arena(object)) {                                                                                       \
      producer_leave(in);                                                                                              \
      return ident##_slow ARGS_PLUS_PLACE arguments;                                                                   \
    }                                                                                                                  \
    struct resize resize = resizing(in, object);                                                                       \
    result got = real.ident arguments;                                                                                 \
    resized(in, CALL_OF(ident, size, param), resize, got, NULL);                                                       \
    return got;                                                                                                        \
  }                                                                                                                    \
  EXPORT result ident declaration {                                                                                    \
    struct producer_event begin = {.op = RECORD_BEGIN, .address = object};                                             \
    struct producer_quick *quick = producer_mine;                                                                      \
    if (__builtin_expect(!producer_record_quick(quick, begin), 0))                                                     \
      return ident##_not_quick ARGS_PLUS_FRAME arguments;                                                              \
    struct producer *producer = (struct producer *)quick; /* nothing can be recorded without one */                    \
    producer->open++;                                                                                                  \
    result got = real.ident arguments;                                                                                 \
    if (__builtin_expect(REQUEST(ident, size, param) >= host_state.quick_bytes[0] ||                                   \
                             !producer_record_quick(producer_mine, step_of(CALL_AS(ident, size, param, true), got)),   \
                         0))                                                                                           \
      return ident##_end_stamped((struct hook_sizes){size, param}, got, object, FRAME);                                \
    producer->open--;                                                                                                  \
    return got;                                                                                                        \
  }
#define PRODUCT(ident, size, param) (HAS_PARAM_##ident ? (size) * (param) : (size))

#define HOOK_OTHER(ident, result, declaration, arguments, size, param)

#define HOOK(ident, kind, result, declaration, arguments, size, param)                                                 \
  HOOK_##kind(ident, result, declaration, arguments, size, param)
#include "capture/host/real/entry_points.def"

SLOW int posix_memalign_slow(void **result, size_t align, size_t size, struct place place) {
  struct producer_entry in = producer_enter_slow(PRODUCER_CALLING, place.caller, place.frame, OWN_FRAME);
  struct record_columns columns;
  uint64_t begin = timing(in);
  int error = real.posix_memalign(result, align, size);
  void *got = error ? NULL : *result;
  if (in.producer)
    acquired(in, CALL_OF(posix_memalign, size, align), got, fill(&columns, in, begin, got, size));
  return error;
}

ACQUIRED_NOT_QUICK(posix_memalign)

EXPORT int posix_memalign(void **result, size_t align, size_t size) {
  if (size >= host_state.quick_bytes[MAY_CALL(posix_memalign)])
    return posix_memalign_slow(result, align, size, place_of(FRAME));
  int error = real.posix_memalign(result, align, size);
  void *got = error ? NULL : *result;
  if (__builtin_expect(!producer_record_quick(producer_mine, step_of(CALL_AS(posix_memalign, size, align, true), got)),
                       0))
    posix_memalign_not_quick((struct hook_sizes){size, align}, got, FRAME);
  return error;
}

SLOW size_t malloc_usable_size_slow(void *object, void *const *frame) {
  const struct hook_call call = {.op = CALL_malloc_usable_size, .small = true};
  bool real_one;
  if (__builtin_expect(real_in_arena(object), 0)) {
    host_count_missing();
    return real_arena_usable(object);
  }
  if ((producer_may_skip() && producer_skip(frame[-1])) || release_stamped(call, object, (uintptr_t)frame, &real_one))
    return real.malloc_usable_size(object);
  struct producer_entry in =
      producer_enter_slow(PRODUCER_CALLING | PRODUCER_TOUCHES, frame[-1], (uintptr_t)frame, NULL);
  if (in.producer)
    releasing(in, PRODUCER_CALLING, call, object);
  uint64_t begin = timing(in);
  size_t usable_bytes = real.malloc_usable_size(object);
  if (in.producer)
    released(in, object, begin);
  return usable_bytes;
}

EXPORT size_t malloc_usable_size(void *object) {
  struct hook_call call = {.op = CALL_malloc_usable_size, .small = true};
  if (host_state.quick_bytes[0] && producer_record_quick(producer_mine, step_of(call, object)))
    return real.malloc_usable_size(object);
  return malloc_usable_size_slow(object, FRAME);
}

__thread struct new_call *new_newest __attribute__((tls_model("initial-exec")));

/* An operator new may end by an exception, its own or a new-handler's. The unwinder calls the personality routine of
   each frame that it passes; ours records the failed call. So libheaptape.so does not need the unwinder's library,
   which a C program lacks (code compiled with -fexceptions would need it), and a call that does not throw costs nothing
   extra. */
enum { UNWIND_CLEANUP_PHASE = 2, UNWIND_CONTINUE = 8 };

__attribute__((used)) int hooks_personality(int version, int actions, uint64_t class, void *exception, void *context);
int hooks_personality(int version, int actions, uint64_t class, void *exception, void *context) {
  (void)version, (void)class, (void)exception, (void)context;
  if ((actions & UNWIND_CLEANUP_PHASE) && new_newest) {
    int error = errno;
    struct new_call thrown = *new_newest;
    const uint64_t *param = call_has_param(thrown.op) ? &thrown.sizes.param : NULL;
    struct hook_call call = {thrown.op, .request_bytes = thrown.sizes.size, .size = thrown.sizes.size, .param = param};
    new_ends(&thrown);
    acquired(thrown.in, call, NULL, NULL);
    errno = error;
  }
  return UNWIND_CONTINUE;
}

/* caller: of the first operator that is called. */
SLOW bool operators_are_recorded(const void *caller) {
  if (producer_is_early()) {
    real_serve_early();
    operators_serve_early();
    host_count_missing();
    return false;
  }
  if (!__atomic_load_n(&operators.flags, __ATOMIC_ACQUIRE) && !own_stack_run(operators_find, (void *)caller)) {
    int error = errno;
    operators_find((void *)caller);
    errno = error;
  }
  return __atomic_load_n(&operators.flags, __ATOMIC_ACQUIRE) & OPERATORS_RECORDED;
}

static inline bool is_outermost(struct producer_entry in) {
  return in.was == PRODUCER_IDLE || in.was == PRODUCER_SLOW;
}

/* The frame that has this personality; only for calls that are recorded. The assembler
   statement at its end keeps the call from becoming a jump, which would leave no frame. */
#define OPERATOR_NEW_FRAME(ident, declaration, arguments, size, param)                                                 \
  static __attribute__((noinline)) void *call_##ident DECL_PLUS_ENTRY declaration {                                    \
    __asm__ volatile(".cfi_personality 0x1b, hooks_personality");                                                      \
    struct new_call call;                                                                                              \
    new_begins(&call, in, CALL_##ident, (struct hook_sizes){size, param});                                             \
    void *got = operators.ident arguments;                                                                             \
    __asm__ volatile("" : "+r"(got));                                                                                  \
    new_ends(&call);                                                                                                   \
    return got;                                                                                                        \
  }

/* The same in state IDLE, for an operator that calls no hook: its frame only keeps the size, in a register that each
   callee preserves, where the personality routine finds it by the unwinder that called it. Not for the aligned forms.
   code: the operator's place in `operators`. */
#if defined(__x86_64__)
#define QUIET_FRAME(ident, code, declaration)                                                                          \
  _Static_assert(offsetof(struct operators, ident) == code, "the assembler code has another place");                   \
  void *quiet_##ident declaration;                                                                                     \
  __attribute__((used)) int thrown_##ident(int version, int actions, uint64_t class, void *exception, void *context);  \
  int thrown_##ident(int version, int actions, uint64_t class, void *exception, void *context) {                       \
    (void)version, (void)class, (void)exception;                                                                       \
    if (actions & UNWIND_CLEANUP_PHASE)                                                                                \
      thrown_quietly(CALL_##ident, __builtin_return_address(0), context);                                              \
    return UNWIND_CONTINUE;                                                                                            \
  }                                                                                                                    \
  __asm__(".text\n.type quiet_" #ident ", @function\nquiet_" #ident ":\n"                                              \
          ".cfi_startproc\n.cfi_personality 0x1b, thrown_" #ident "\n"                                                 \
          "  pushq %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset %rbx, -16\n"                                              \
          "  movq %rdi, %rbx\n"                                                                                        \
          "  call *operators+" #code "(%rip)\n"                                                                        \
          "  popq %rbx\n.cfi_def_cfa_offset 8\n"                                                                       \
          "  ret\n.cfi_endproc\n.size quiet_" #ident ", . - quiet_" #ident "\n");
enum { RBX = 3 }; /* its number in unwind tables */

SLOW void thrown_quietly(uint8_t op, const void *unwinder, void *context) {
  int error = errno;
  uint64_t (*get)(void *context, int number) = (uint64_t(*)(void *, int))symbols_code_near(unwinder, "_Unwind_GetGR");
  struct producer_entry in = producer_enter(PRODUCER_CALLING, NULL, os_stack_pointer());
  if (in.producer && get) {
    acquired(in, (struct hook_call){.op = op, .size = get(context, RBX)}, NULL, NULL);
  } else if (in.producer) {
    producer_drop(in.producer);
    producer_leave(in);
  }
  errno = error;
}

QUIET_FRAME(new, 8, (size_t size))
QUIET_FRAME(new_array, 16, (size_t size))
QUIET_FRAME(new_nothrow, 24, (size_t size, const void *nothrow))
QUIET_FRAME(new_array_nothrow, 32, (size_t size, const void *nothrow))
#define QUIETLY(ident) quiet_##ident
#else
#define QUIETLY(ident) operators.ident /* never called */
#endif
#define QUIETLY_new QUIETLY(new)
#define QUIETLY_new_array QUIETLY(new_array)
#define QUIETLY_new_nothrow QUIETLY(new_nothrow)
#define QUIETLY_new_array_nothrow QUIETLY(new_array_nothrow)
#define QUIETLY_new_aligned(...) NULL
#define QUIETLY_new_array_aligned(...) NULL
#define QUIETLY_new_aligned_nothrow(...) NULL
#define QUIETLY_new_array_aligned_nothrow(...) NULL

#define DECL_PLUS_ENTRY(...) (__VA_ARGS__, struct producer_entry in)
#define ARGS_PLUS_ENTRY(...) (__VA_ARGS__, in)
#define OPERATOR_NEW_HOOK(ident, declaration, arguments, size, param)                                                  \
  OPERATOR_NEW_FRAME(ident, declaration, arguments, size, param)                                                       \
  SLOW void *ident##_slow DECL_PLUS_CALLER declaration {                                                               \
    if (!(operators.flags & OPERATORS_RECORDED) && !operators_are_recorded(caller))                                    \
      return operators.ident arguments;                                                                                \
    struct producer_entry in = producer_enter_slow(PRODUCER_NEW, caller, frame, OWN_FRAME);                            \
    if (!in.producer)                                                                                                  \
      return operators.ident arguments;                                                                                \
    struct record_columns columns;                                                                                     \
    bool is_malloc = !HAS_PARAM_##ident && (operators.flags & OPERATORS_NEW_IS_MALLOC) && is_outermost(in);            \
    uint64_t begin = timing(in);                                                                                       \
    void *got = is_malloc ? real.malloc(size + !size) : NULL; /* else its latency would have that of our own hook */   \
    if (!got)                                                                                                          \
      got = call_##ident ARGS_PLUS_ENTRY arguments;                                                                    \
    acquired(in, CALL_OF(ident, size, param), got, fill(&columns, in, begin, got, size));                              \
    return got;                                                                                                        \
  }                                                                                                                    \
  ACQUIRED_NOT_QUICK(ident)                                                                                            \
  EXPORT void *ident declaration {                                                                                     \
    void *got;                                                                                                         \
    if (HAS_PARAM_##ident || size >= host_state.quick_bytes[0])                                                        \
      return ident##_slow ARGS_PLUS_CALLER arguments;                                                                  \
    if (__builtin_expect(operators.flags & OPERATORS_NEW_IS_MALLOC, 0)) {                                              \
      got = real.malloc(size + !size);                                                                                 \
      if (!got)                                                                                                        \
        return ident##_slow ARGS_PLUS_CALLER arguments;                                                                \
    } else {                                                                                                           \
      atomic_signal_fence(memory_order_seq_cst); /* else the compiler loads the flags once, by one more instruction */ \
      if (!(operators.flags & OPERATORS_NEW_IS_QUIET))                                                                 \
        return ident##_slow ARGS_PLUS_CALLER arguments;                                                                \
      got = QUIETLY_##ident arguments;                                                                                 \
    }                                                                                                                  \
    ACQUIRED_QUICK(ident, got, size, param);                                                                           \
  }

/* An operator that may call a hook must not be called by a jump: it may end in a jump to free, and where the thread is
   paused, only the return address of that free, in our hook, shows that it is the operator's. */
#define OPERATOR_DELETE_HOOK(ident, declaration, arguments, size, param)                                               \
  SLOW void ident##_slow DECL_PLUS_CALLER declaration {                                                                \
    struct producer_entry in = {NULL, 0};                                                                              \
    if ((operators.flags & OPERATORS_RECORDED) || operators_are_recorded(caller))                                      \
      in = producer_enter_slow(PRODUCER_DELETE | PRODUCER_RELEASES, caller, frame, NULL);                              \
    if (in.producer)                                                                                                   \
      releasing(in, PRODUCER_DELETE, CALL_OF(ident, size, param), object);                                             \
    uint64_t begin = timing(in);                                                                                       \
    if (is_outermost(in) && operators.quick_##ident)                                                                   \
      operators.quick_##ident arguments;                                                                               \
    else                                                                                                               \
      operators.ident arguments;                                                                                       \
    __asm__ volatile(""); /* no jump */                                                                                \
    if (in.producer)                                                                                                   \
      released(in, object, begin);                                                                                     \
  }                                                                                                                    \
  RELEASED_NOT_QUICK(ident, declaration, arguments, size, param, operators.quick_##ident arguments)                    \
  EXPORT void ident declaration {                                                                                      \
    if (__builtin_expect(!operators.quick_##ident, 0))                                                                 \
      ident##_slow ARGS_PLUS_CALLER arguments;                                                                         \
    else if (__builtin_expect(                                                                                         \
                 producer_record_quick(producer_mine, step_of(QUICK_CALL_OF(ident, size, param), object)), 1))         \
      operators.quick_##ident arguments;                                                                               \
    else                                                                                                               \
      ident##_not_quick ARGS_PLUS_FRAME arguments;                                                                     \
  }

/* The steps for hooks of other files (steps.h). */
uint64_t step_time(struct producer_entry in) {
  return timing(in);
}

bool step_wants_usable(struct producer_entry in) {
  return in.was == PRODUCER_SLOW && (host_state.flags & ATTACH_USABLE);
}

static const struct record_columns *columns_of(struct record_columns *columns, const struct step *step) {
  if (!has_columns(step->in))
    return NULL;
  *columns = (struct record_columns){.latency = timed(step->began),
                                     .stack = stack_settings.area ? step->in.producer->stack : 0};
  if (step_wants_usable(step->in) && step->usable_bytes)
    columns->slack = trace_event_slack(call_of_op(step->call, &step->sizes).request_bytes, step->usable_bytes);
  return columns;
}

void step_acquired(const struct step *step, const void *result) {
  struct record_columns columns;
  acquired(step->in, call_of_op(step->call, &step->sizes), result, columns_of(&columns, step));
}

void step_releasing(const struct step *step, enum producer_state calling, const void *object) {
  releasing(step->in, calling, call_of_op(step->call, &step->sizes), object);
}

void step_released(const struct step *step, const void *object) {
  released(step->in, object, step->began);
}

struct resize step_resizing(const struct step *step, const void *object) {
  return resizing(step->in, object);
}

void step_resized(const struct step *step, struct resize resize, const void *result) {
  struct record_columns columns;
  resized(step->in, call_of_op(step->call, &step->sizes), resize, result, columns_of(&columns, step));
}

#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  OPERATOR_##kind##_HOOK(ident, declaration, arguments, size, param)
#include "capture/host/real/entry_points.def"

static void record_live(const void *object, uint64_t bytes) {
  struct producer_entry in = producer_enter(PRODUCER_CALLING | PRODUCER_TOUCHES, CALLER);
  if (!in.producer)
    return;
  uint64_t touched = large_touched(object, bytes, false);
  if (touched != LARGE_UNKNOWN)
    producer_note(in, RECORD_LIVE, object, touched);
  producer_leave(in);
}

/* Many programs never release their largest objects. If a program is killed, or calls _exit, it is not known how much
   of these is resident; the replay then touches only their first byte. */
__attribute__((destructor)) static void record_live_objects(void) {
  stack_wait_for_collector();
  if (producer_now() && !process_is_off())
    large_visit(record_live);
}

/* Names by which glibc exports the same functions: what one name acquires, another may release. By the assembler, as
   compilers compare the attributes of an alias with those of its target. */
#define ALSO_OF_LIBC(ident)                                                                                            \
  __asm__(".globl __libc_" #ident "\n.type __libc_" #ident ", %function\n.set __libc_" #ident ", " #ident "\n");
ALSO_OF_LIBC(malloc)
ALSO_OF_LIBC(free)
ALSO_OF_LIBC(calloc)
ALSO_OF_LIBC(realloc)
ALSO_OF_LIBC(memalign)
ALSO_OF_LIBC(valloc)
ALSO_OF_LIBC(pvalloc)
