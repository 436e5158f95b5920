/* SPDX-License-Identifier: MIT */
/* The entry points. Each one decides whether its call is to be recorded, and records a release or touch before the real
   call, an acquire after it. errno stays as the real call left it. Compiled with -fno-builtin, so that the compiler
   assumes nothing about functions of these names. */
#include "capture/host/real/real.h"

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

/* Each entry point exists three times. The exported form has only the common case, in as few instructions as possible:
   the thread is in no other hook, the real function is libc's and therefore calls no hook, the step needs no stamp, the
   ring has room. So the thread need not be marked as being in the real function, nor in the hook: a hook that acquires
   uses its producer only after the call, and a hook that releases ends in a jump. The guarded form is the common case
   of other allocators: it records in the same way, and a mark shows that the thread is in the real function. Everything
   else is in the slow form, which gets the caller's address. Instruction counts: docs/measurements/capture.md. */
#define SLOW static __attribute__((noinline))
#define AND_CALLER(...) (__VA_ARGS__, const void *caller, uintptr_t frame)
#define OWN_FRAME __builtin_frame_address(0)
#define WITH_CALLER(...) (__VA_ARGS__, CALLER)
#define AND_REST(...) (__VA_ARGS__, void *const *frame)
#define WITH_REST(...) (__VA_ARGS__, FRAME)
#define PASS_REST(...) (__VA_ARGS__, frame)
#define WITH_PLACE(...) (__VA_ARGS__, place.caller, place.frame)

/* After a real call that acquires. result NULL: it failed. columns: NULL where none are recorded. */
SLOW void acquired(struct producer_entry in, struct hook_call call, const void *result,
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

/* Where a hook was called from. */
struct place {
  const void *caller;
  uintptr_t frame;
};

/* The request is in a struct hook_sizes, of which call_of_op makes a hook_call. The exported forms end in calls of the
   functions below, whose arguments all fit into registers. So these calls are jumps, and no value of the exported
   forms needs a register that they would have to save. */
/* After the real call, for a thread that is in another hook, or has no producer. Returns result. */
SLOW void *acquired_late(uint8_t op, struct hook_sizes sizes, void *result, struct place place) {
  struct producer_entry in = producer_enter_slow(PRODUCER_CALLING, place.caller, place.frame, NULL);
  if (in.producer)
    acquired(in, call_of_op(op, &sizes), result, NULL);
  return result;
}

/* Where the hook with that FRAME was called from. */
static inline struct place place_of(void *const *frame) {
  return (struct place){frame[-1], (uintptr_t)frame};
}

/* After the real call, where the step is not of the common case. False: nothing was recorded, and the thread is in
   another hook, or has no producer. */
static inline __attribute__((always_inline)) bool acquired_rest(struct hook_call call, void *result, uintptr_t frame) {
  bool large = call.request_bytes >= host_state.small_bytes;
  struct producer_event event = step_of(call, result);
  struct producer *producer = producer_if_idle();
  if (!producer)
    return false;
  if (!large && result && producer_record_unstamped(producer, event))
    return true;
  struct producer_entry in = {producer, producer->quick.state};
  producer_hold_rest(producer, frame);
  if (!large && producer_record_stamped(producer, event))
    producer_leave(in);
  else
    acquired(in, call, result, NULL);
  return true;
}

/* The end of a hook that acquires, after its common case has failed. Returns result. A skipped call is detected before
   any registers have been saved. */
#define ACQUIRED_REST(ident)                                                                                           \
  SLOW void *more_##ident(struct hook_sizes sizes, void *result, void *const *frame) {                                 \
    if (!acquired_rest(call_of_op(CALL_##ident, &sizes), result, (uintptr_t)frame))                                    \
      acquired_late(CALL_##ident, sizes, result, place_of(frame));                                                     \
    return result;                                                                                                     \
  }                                                                                                                    \
  SLOW void *rest_##ident(struct hook_sizes sizes, void *result, void *const *frame) {                                 \
    return producer_may_skip() && producer_skip(frame[-1]) ? result : more_##ident(sizes, result, frame);              \
  }

/* The ends of a hook that acquires: in its exported form, and in its guarded form. */
#define ACQUIRED_PLAIN(ident, got, size, param)                                                                        \
  if (__builtin_expect(producer_record_quick(producer_mine, step_of(CALL_AS(ident, size, param, true), got)), 1))      \
    return got;                                                                                                        \
  return rest_##ident((struct hook_sizes){size, param}, got, FRAME)
#define ACQUIRED_GUARDED(ident, quick, got, size, param, frame)                                                        \
  producer_unmark(quick);                                                                                              \
  if (__builtin_expect(REQUEST(ident, size, param) < host_state.small_bytes &&                                         \
                           producer_record_quick(quick, step_of(CALL_AS(ident, size, param, true), got)),              \
                       1))                                                                                             \
    return got;                                                                                                        \
  return rest_##ident((struct hook_sizes){size, param}, got, frame)

/* Before the release of an object that may be large: records how much of it is resident. Returns its request in bytes,
   0 if it is not large. */
static __attribute__((noinline, cold)) uint64_t releasing_large(struct producer_entry in, const void *object,
                                                                bool quick) {
  uint64_t bytes = large_take(object);
  if (!bytes)
    return 0;
  uint32_t os_pages = large_resident_os_pages(object, bytes, quick);
  if (os_pages != LARGE_UNKNOWN)
    producer_note(in, RECORD_TOUCHED, object, os_pages);
  return bytes;
}

/* Before a real call that releases or touches. calling: the producer's state during that call. */
SLOW void releasing(struct producer_entry in, enum producer_state calling, struct hook_call call, const void *object) {
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

/* Before the real call of a release that is not of the common case, which is then made in state was. Precondition:
   state RECORDING. False: the object is of the bootstrap arena, and the real function must not be called. */
static inline __attribute__((always_inline)) bool releasing_rest(struct producer_entry in, struct hook_call call,
                                                                 const void *object) {
  struct producer_event event = step_of(call, object);
  event.stamped = !call.has_size;
  bool real_one = !real_in_arena(object);
  if (real_one && (large_may_be(object) || !producer_record_stamped(in.producer, event)))
    releasing(in, PRODUCER_CALLING, call, object);
  producer_leave(in);
  return real_one;
}

/* The complete uncommon case of a release, where the thread is in no other hook. False: it is, and nothing was done. */
static inline __attribute__((always_inline)) bool release_rest(struct hook_call call, const void *object,
                                                               uintptr_t frame, bool *real_one) {
  struct producer_event event = step_of(call, object);
  event.op |= object ? 0 : CALL_NULL_IN;
  struct producer *producer = producer_if_idle();
  if (!producer)
    return false;
  *real_one = true;
  if (producer_record_unstamped(producer, event))
    return true;
  struct producer_entry in = {producer, producer->quick.state};
  producer_hold_rest(producer, frame);
  *real_one = releasing_rest(in, call, object);
  return true;
}

#define REST(ident, declaration, arguments, size, param, free_it)                                                      \
  SLOW void more_##ident AND_REST declaration {                                                                        \
    struct place place = place_of(frame);                                                                              \
    bool real_one;                                                                                                     \
    if (!release_rest(QUICK_CALL_OF(ident, size, param), object, place.frame, &real_one))                              \
      slow_##ident WITH_PLACE arguments;                                                                               \
    else if (real_one)                                                                                                 \
      free_it;                                                                                                         \
  }                                                                                                                    \
  SLOW void rest_##ident AND_REST declaration {                                                                        \
    if (!producer_may_skip() || real_in_arena(object) || !producer_skip(frame[-1]))                                    \
      more_##ident PASS_REST arguments;                                                                                \
    else                                                                                                               \
      free_it;                                                                                                         \
  }

/* The guarded form of a release. of: the mark during the real call. A thread that can't be marked has just begun a
   pause. */
#define RELEASE_GUARDED(ident, declaration, arguments, size, param, recorded, of, free_it)                             \
  SLOW void unmarked_##ident AND_REST declaration {                                                                    \
    struct place place = place_of(frame);                                                                              \
    struct producer_quick *quick = producer_ready();                                                                   \
    bool real_one;                                                                                                     \
    if (!quick || !(recorded) || !release_rest(QUICK_CALL_OF(ident, size, param), object, place.frame, &real_one)) {   \
      slow_##ident WITH_PLACE arguments;                                                                               \
      return;                                                                                                          \
    }                                                                                                                  \
    quick = producer_ready();                                                                                          \
    if (quick)                                                                                                         \
      producer_mark(quick, frame, of);                                                                                 \
    if (real_one)                                                                                                      \
      free_it;                                                                                                         \
    if (quick)                                                                                                         \
      producer_unmark(quick);                                                                                          \
  }                                                                                                                    \
  SLOW void guarded_##ident AND_REST declaration {                                                                     \
    struct producer_quick *quick = producer_ready();                                                                   \
    if (__builtin_expect(!quick || !(recorded) ||                                                                      \
                             !producer_record_quick(quick, step_of(QUICK_CALL_OF(ident, size, param), object)),        \
                         0)) {                                                                                         \
      unmarked_##ident PASS_REST arguments;                                                                            \
      return;                                                                                                          \
    }                                                                                                                  \
    producer_mark(quick, frame, of);                                                                                   \
    free_it;                                                                                                           \
    producer_unmark(quick);                                                                                            \
  }

/* A resize has two steps: BEGIN before the real call, the event after it. */
SLOW struct resize resizing(struct producer_entry in, const void *object) {
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

SLOW void resized(struct producer_entry in, struct hook_call call, struct resize resize, const void *result,
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

#define PARAM_OF(ident, value) (HAS_PARAM_##ident ? &(uint64_t){value} : NULL)
#define REQUEST(ident, size, param) (HAS_COUNT_##ident ? product(size, param) : (size))
#define CALL_AS(ident, size, param, small)                                                                             \
  ((struct hook_call){CALL_##ident, HAS_SIZE_##ident, small, REQUEST(ident, size, param), size, PARAM_OF(ident, param)})
#define CALL_OF(ident, size, param) CALL_AS(ident, size, param, false)
#define QUICK_CALL_OF(ident, size, param) CALL_AS(ident, size, param, !HAS_SIZE_##ident) /* of a release */

/* The optional columns (latency, usable size, stacks) are recorded by the slow forms only. Where one is wanted,
   PRODUCER_OPTIONAL replaces PRODUCER_IDLE, so that no hook is in its common case, and recordings without columns pay
   nothing for them. */

/* The time before the real call; 0: its latency is not wanted. */
static inline uint64_t timing(struct producer_entry in) {
  return in.was == PRODUCER_OPTIONAL && (host_state.flags & ATTACH_LATENCY) ? os_stamp() : 0;
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
  if (in.was != PRODUCER_OPTIONAL)
    return NULL;
  *columns = (struct record_columns){.latency = timed(begin), .stack = stack_settings.area ? in.producer->stack : 0};
  if ((host_state.flags & ATTACH_USABLE) && object && !real_in_arena(object))
    columns->slack = trace_event_slack(request_bytes, real.malloc_usable_size(object));
  return columns;
}

/* After the real call of a release or touch, whose event has been recorded. */
static inline void released(struct producer_entry in, const void *object, uint64_t begin) {
  if (begin)
    producer_note(in, RECORD_LATENCY, object, timed(begin));
  producer_leave(in);
}

#define HOOK_ACQUIRE(ident, result, declaration, arguments, size, param)                                               \
  SLOW result slow_##ident AND_CALLER declaration {                                                                    \
    struct producer_entry in = producer_enter(PRODUCER_CALLING, caller, frame, OWN_FRAME);                             \
    struct record_columns columns;                                                                                     \
    uint64_t begin = timing(in);                                                                                       \
    result got = real.ident arguments;                                                                                 \
    if (in.producer)                                                                                                   \
      acquired(in, CALL_OF(ident, size, param), got, fill(&columns, in, begin, got, REQUEST(ident, size, param)));     \
    return got;                                                                                                        \
  }                                                                                                                    \
  ACQUIRED_REST(ident)                                                                                                 \
  SLOW result guarded_##ident AND_REST declaration {                                                                   \
    struct producer_quick *quick = producer_ready();                                                                   \
    struct place place = place_of(frame);                                                                              \
    if (!quick)                                                                                                        \
      return slow_##ident WITH_PLACE arguments;                                                                        \
    producer_mark(quick, frame, MARK_CALLING);                                                                         \
    result got = real.ident arguments;                                                                                 \
    ACQUIRED_GUARDED(ident, quick, got, size, param, frame);                                                           \
  }                                                                                                                    \
  EXPORT result ident declaration {                                                                                    \
    if (__builtin_expect(REQUEST(ident, size, param) >= host_state.quick_bytes, 0))                                    \
      return guarded_##ident WITH_REST arguments;                                                                      \
    result got = real.ident arguments;                                                                                 \
    ACQUIRED_PLAIN(ident, got, size, param);                                                                           \
  }

#define HOOK_RELEASE(ident, result, declaration, arguments, size, param)                                               \
  SLOW result slow_##ident AND_CALLER declaration {                                                                    \
    if (__builtin_expect(real_in_arena(object), 0))                                                                    \
      return;                                                                                                          \
    struct producer_entry in = producer_enter(PRODUCER_CALLING | PRODUCER_RELEASES, caller, frame, NULL);              \
    if (in.producer)                                                                                                   \
      releasing(in, PRODUCER_CALLING, CALL_OF(ident, size, param), object);                                            \
    uint64_t begin = timing(in);                                                                                       \
    real.ident arguments;                                                                                              \
    if (in.producer)                                                                                                   \
      released(in, object, begin);                                                                                     \
  }                                                                                                                    \
  REST(ident, declaration, arguments, size, param, real.ident arguments)                                               \
  RELEASE_GUARDED(ident, declaration, arguments, size, param, true, MARK_CALLING, real.ident arguments)                \
  EXPORT result ident declaration {                                                                                    \
    if (__builtin_expect(host_state.idle != PRODUCER_IDLE, 0))                                                         \
      guarded_##ident WITH_REST arguments;                                                                             \
    else if (__builtin_expect(                                                                                         \
                 producer_record_quick(producer_mine, step_of(QUICK_CALL_OF(ident, size, param), object)), 1))         \
      real.ident arguments;                                                                                            \
    else                                                                                                               \
      rest_##ident WITH_REST arguments;                                                                                \
  }

/* A resize of an object of the bootstrap arena acquires a new object and copies the content. It is not recorded, as the
   old object never was. */
#define HOOK_RESIZE(ident, result, declaration, arguments, size, param)                                                \
  SLOW result slow_##ident AND_CALLER declaration {                                                                    \
    if (real_in_arena(object))                                                                                         \
      return real_arena_move(object, PRODUCT(ident, size, param));                                                     \
    struct producer_entry in = producer_enter(PRODUCER_CALLING, caller, frame, OWN_FRAME);                             \
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
  SLOW result began_##ident(struct hook_sizes sizes, void *got, void *object, void *const *frame) {                    \
    struct producer_entry in = producer_enter(PRODUCER_CALLING, frame[-1], (uintptr_t)frame, NULL);                    \
    if (in.producer)                                                                                                   \
      resized(in, call_of_op(CALL_##ident, &sizes), (struct resize){object, true, 0}, got, NULL);                      \
    return got;                                                                                                        \
  }                                                                                                                    \
  SLOW result rest_##ident AND_REST declaration {                                                                      \
    struct place place = place_of(frame);                                                                              \
    if (!producer_if_idle() && !real_in_arena(object) && producer_skip(place.caller))                                  \
      return real.ident arguments;                                                                                     \
    return slow_##ident WITH_PLACE arguments;                                                                          \
  }                                                                                                                    \
  static inline __attribute__((always_inline)) bool begin_##ident(struct producer_quick *quick, const void *object) {  \
    struct producer_event begin = {.op = RECORD_BEGIN, .address = object};                                             \
    if (__builtin_expect(!producer_record_quick(quick, begin), 0))                                                     \
      return false;                                                                                                    \
    ((struct producer *)quick)->open++;                                                                                \
    return true;                                                                                                       \
  }                                                                                                                    \
  static inline __attribute__((always_inline)) bool end_##ident(struct producer_quick *quick, struct hook_call call,   \
                                                                const void *got) {                                     \
    if (__builtin_expect(                                                                                              \
            call.request_bytes >= host_state.small_bytes || !producer_record_quick(quick, step_of(call, got)), 0))     \
      return false;                                                                                                    \
    ((struct producer *)quick)->open--;                                                                                \
    return true;                                                                                                       \
  }                                                                                                                    \
  SLOW result guarded_##ident AND_REST declaration {                                                                   \
    struct producer_quick *quick = producer_ready();                                                                   \
    if (!quick || !begin_##ident(quick, object))                                                                       \
      return rest_##ident PASS_REST arguments;                                                                         \
    producer_mark(quick, frame, MARK_CALLING);                                                                         \
    result got = real.ident arguments;                                                                                 \
    producer_unmark(quick);                                                                                            \
    if (end_##ident(quick, CALL_AS(ident, size, param, true), got))                                                    \
      return got;                                                                                                      \
    return began_##ident((struct hook_sizes){size, param}, got, object, frame);                                        \
  }                                                                                                                    \
  EXPORT result ident declaration {                                                                                    \
    if (__builtin_expect(host_state.idle != PRODUCER_IDLE, 0))                                                         \
      return guarded_##ident WITH_REST arguments;                                                                      \
    if (__builtin_expect(!begin_##ident(producer_mine, object), 0))                                                    \
      return rest_##ident WITH_REST arguments;                                                                         \
    result got = real.ident arguments;                                                                                 \
    if (__builtin_expect(end_##ident(producer_mine, CALL_AS(ident, size, param, true), got), 1))                       \
      return got;                                                                                                      \
    return began_##ident((struct hook_sizes){size, param}, got, object, FRAME);                                        \
  }
#define PRODUCT(ident, size, param) (HAS_PARAM_##ident ? (size) * (param) : (size))

#define HOOK_OTHER(ident, result, declaration, arguments, size, param)

#define HOOK(ident, kind, result, declaration, arguments, size, param)                                                 \
  HOOK_##kind(ident, result, declaration, arguments, size, param)
#include "capture/host/real/entry_points.def"

EXPORT int posix_memalign(void **result, size_t align, size_t size) {
  struct producer_entry in = producer_enter(PRODUCER_CALLING, CALLER, NULL);
  struct record_columns columns;
  uint64_t begin = timing(in), param = align;
  int error = real.posix_memalign(result, align, size);
  void *got = error ? NULL : *result;
  if (__builtin_expect(in.producer != NULL, 1))
    acquired(in, (struct hook_call){CALL_posix_memalign, true, false, size, size, &param}, got,
             fill(&columns, in, begin, got, size));
  return error;
}

SLOW size_t slow_malloc_usable_size(void *object, void *const *frame) {
  if (__builtin_expect(real_in_arena(object), 0))
    return real_arena_usable(object);
  struct place place = place_of(frame);
  struct producer_entry in = producer_enter(PRODUCER_CALLING | PRODUCER_TOUCHES, place.caller, place.frame, NULL);
  if (in.producer)
    releasing(in, PRODUCER_CALLING, (struct hook_call){.op = CALL_malloc_usable_size}, object);
  uint64_t begin = timing(in);
  size_t usable_bytes = real.malloc_usable_size(object);
  if (in.producer)
    released(in, object, begin);
  return usable_bytes;
}

EXPORT size_t malloc_usable_size(void *object) {
  bool may_call_hooks = host_state.idle != PRODUCER_IDLE;
  struct producer_quick *quick = may_call_hooks ? producer_ready() : producer_mine;
  struct hook_call call = {.op = CALL_malloc_usable_size, .small = true};
  if (__builtin_expect(!quick || !producer_record_quick(quick, step_of(call, object)), 0))
    return slow_malloc_usable_size(object, FRAME);
  if (!may_call_hooks)
    return real.malloc_usable_size(object);
  producer_mark(quick, FRAME, MARK_CALLING);
  size_t usable_bytes = real.malloc_usable_size(object);
  producer_unmark(quick);
  return usable_bytes;
}

/* An operator new may end by an exception, its own or a new-handler's. The unwinder calls the personality routine of
   each frame that it passes; ours records the failed call. So libheaptape.so does not need the unwinder's library,
   which a C program lacks (code compiled with -fexceptions would need it), and a call that does not throw costs nothing
   extra. */
enum { UNWIND_CLEANUP_PHASE = 2, UNWIND_CONTINUE = 8 };

__attribute__((used)) int hooks_personality(int version, int actions, uint64_t class, void *exception, void *context);
int hooks_personality(int version, int actions, uint64_t class, void *exception, void *context) {
  (void)version, (void)class, (void)exception, (void)context;
  struct producer_throw thrown;
  if ((actions & UNWIND_CLEANUP_PHASE) && producer_thrown(&thrown)) {
    int error = errno;
    struct producer_entry in = {producer_now(), thrown.was};
    const uint64_t *param = call_has_param(thrown.op) ? &thrown.param : NULL;
    acquired(in, (struct hook_call){.op = thrown.op, .size = thrown.size_bytes, .param = param}, NULL, NULL);
    errno = error;
  }
  return UNWIND_CONTINUE;
}

/* The frame that has this personality; only for calls that are recorded. The assembler statement at its end keeps the
   call from becoming a jump, which would leave no frame. */
#define OPERATOR_NEW_FRAME(ident, declaration, arguments)                                                              \
  static __attribute__((noinline)) void *call_##ident declaration {                                                    \
    __asm__ volatile(".cfi_personality 0x1b, hooks_personality");                                                      \
    void *got = operators.ident arguments;                                                                             \
    __asm__ volatile("" : "+r"(got));                                                                                  \
    return got;                                                                                                        \
  }

static inline bool is_outermost(struct producer_entry in) {
  return producer_is_quick(in.was) || in.was == PRODUCER_OPTIONAL;
}

#define AND_ENTRY(...) (__VA_ARGS__, struct producer_entry in, bool is_malloc)
#define WITH_ENTRY(...) (__VA_ARGS__, in, is_malloc)
#define OPERATOR_NEW_HOOK(ident, declaration, arguments, size, param)                                                  \
  OPERATOR_NEW_FRAME(ident, declaration, arguments)                                                                    \
  static inline __attribute__((always_inline)) void *recorded_##ident AND_ENTRY declaration {                          \
    void *got = is_malloc ? real.malloc(size + !size) : NULL;                                                          \
    if (!got) {                                                                                                        \
      producer_may_throw(in, CALL_##ident, size, param);                                                               \
      got = call_##ident arguments;                                                                                    \
      producer_did_not_throw(in);                                                                                      \
    }                                                                                                                  \
    return got;                                                                                                        \
  }                                                                                                                    \
  SLOW void *slow_##ident AND_CALLER declaration {                                                                     \
    if (!(operators.flags & OPERATORS_RECORDED) && !operators_find(caller))                                            \
      return operators.ident arguments;                                                                                \
    struct producer_entry in = producer_enter(PRODUCER_NEW, caller, frame, OWN_FRAME);                                 \
    if (!in.producer)                                                                                                  \
      return operators.ident arguments;                                                                                \
    struct record_columns columns;                                                                                     \
    bool is_malloc = !HAS_PARAM_##ident && (operators.flags & OPERATORS_NEW_IS_MALLOC) && is_outermost(in);            \
    uint64_t begin = timing(in);                                                                                       \
    void *got = recorded_##ident WITH_ENTRY arguments; /* else its latency would have that of our own hook */          \
    acquired(in, CALL_OF(ident, size, param), got, fill(&columns, in, begin, got, size));                              \
    return got;                                                                                                        \
  }                                                                                                                    \
  ACQUIRED_REST(ident)                                                                                                 \
  SLOW void *guarded_##ident AND_REST declaration {                                                                    \
    struct producer_quick *quick = producer_ready();                                                                   \
    struct place place = place_of(frame);                                                                              \
    uint32_t flags = operators.flags;                                                                                  \
    if (!quick || !(flags & OPERATORS_RECORDED))                                                                       \
      return slow_##ident WITH_PLACE arguments;                                                                        \
    struct producer_entry in = {(struct producer *)quick, PRODUCER_GUARDED};                                           \
    bool is_malloc = !HAS_PARAM_##ident && (flags & OPERATORS_NEW_IS_MALLOC);                                          \
    producer_mark(quick, frame, MARK_NEW);                                                                             \
    void *got = recorded_##ident WITH_ENTRY arguments;                                                                 \
    ACQUIRED_GUARDED(ident, quick, got, size, param, frame);                                                           \
  }                                                                                                                    \
  EXPORT void *ident declaration {                                                                                     \
    void *got = NULL;                                                                                                  \
    if (!HAS_PARAM_##ident && (operators.flags & OPERATORS_NEW_IS_MALLOC) && size < host_state.quick_bytes)            \
      got = real.malloc(size + !size);                                                                                 \
    if (__builtin_expect(!got, 0))                                                                                     \
      return guarded_##ident WITH_REST arguments;                                                                      \
    ACQUIRED_PLAIN(ident, got, size, param);                                                                           \
  }

/* The operator must not be called by a jump: an allocator's operator may end in a jump to free, and where the thread is
   paused, only the return address of that free, in our hook, shows that it is the operator's. */
#define OPERATOR_DELETE_HOOK(ident, declaration, arguments, size, param)                                               \
  static inline __attribute__((always_inline)) void delete_##ident declaration {                                       \
    if (operators.flags & OPERATORS_DELETE_IS_FREE)                                                                    \
      real.free(object);                                                                                               \
    else                                                                                                               \
      operators.ident arguments;                                                                                       \
  }                                                                                                                    \
  SLOW void slow_##ident AND_CALLER declaration {                                                                      \
    struct producer_entry in = {NULL, 0};                                                                              \
    if ((operators.flags & OPERATORS_RECORDED) || operators_find(caller))                                              \
      in = producer_enter(PRODUCER_DELETE | PRODUCER_RELEASES, caller, frame, NULL);                                   \
    if (in.producer)                                                                                                   \
      releasing(in, PRODUCER_DELETE, CALL_OF(ident, size, param), object);                                             \
    uint64_t begin = timing(in);                                                                                       \
    if (is_outermost(in) && (operators.flags & OPERATORS_DELETE_IS_FREE))                                              \
      real.free(object);                                                                                               \
    else                                                                                                               \
      operators.ident arguments;                                                                                       \
    __asm__ volatile(""); /* no jump */                                                                                \
    if (in.producer)                                                                                                   \
      released(in, object, begin);                                                                                     \
  }                                                                                                                    \
  REST(ident, declaration, arguments, size, param, real.free(object))                                                  \
  RELEASE_GUARDED(ident, declaration, arguments, size, param, operators.flags &OPERATORS_RECORDED, MARK_DELETE,        \
                  delete_##ident arguments)                                                                            \
  EXPORT void ident declaration {                                                                                      \
    if (__builtin_expect(!(operators.flags & OPERATORS_DELETE_IS_FREE) || host_state.idle != PRODUCER_IDLE, 0))        \
      guarded_##ident WITH_REST arguments;                                                                             \
    else if (__builtin_expect(                                                                                         \
                 producer_record_quick(producer_mine, step_of(QUICK_CALL_OF(ident, size, param), object)), 1))         \
      real.free(object);                                                                                               \
    else                                                                                                               \
      rest_##ident WITH_REST arguments;                                                                                \
  }

/* The steps for hooks of other files (steps.h). */
uint64_t step_time(struct producer_entry in) {
  return timing(in);
}

bool step_wants_usable(struct producer_entry in) {
  return in.was == PRODUCER_OPTIONAL && (host_state.flags & ATTACH_USABLE);
}

static const struct record_columns *columns_of(struct record_columns *columns, const struct step *step) {
  if (step->in.was != PRODUCER_OPTIONAL)
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
  struct producer_entry in = producer_enter(PRODUCER_CALLING | PRODUCER_TOUCHES, CALLER, NULL);
  if (!in.producer)
    return;
  uint32_t os_pages = large_resident_os_pages(object, bytes, false);
  if (os_pages != LARGE_UNKNOWN)
    producer_note(in, RECORD_LIVE, object, os_pages);
  producer_leave(in);
}

/* Many programs never release their largest objects. If a program is killed, or calls _exit, it is not known how much
   of these is resident; the replay then touches only their first byte. */
__attribute__((destructor)) static void record_live_objects(void) {
  stack_wait_for_collector();
  if (producer_now() && !process_is_off())
    large_visit(record_live);
}
