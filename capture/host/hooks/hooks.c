/* SPDX-License-Identifier: MIT */
/* The entry points. Each one decides whether its call is to be recorded, and records a release or touch before the real
   call, an acquire after it. errno stays as the real call left it. Compiled with -fno-builtin, so that the compiler
   assumes nothing about functions of these names. */
#include "capture/host/real/real.h"

#include "capture/host/hooks/inner_calls.h"
#include "capture/host/hooks/steps.h"
#include "capture/host/large.h"
#include "capture/host/process.h"
#include "capture/host/producer.h"
#include "capture/host/stacks/stack.h"
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

/* The rest of a stamped form, in functions of their own, so that the others need no memory for a step. The thread was
   in state IDLE, and holds next. */
SLOW void acquired_rest(struct producer *producer, uint8_t op, struct hook_sizes sizes, void *result) {
  step_acquired(&(struct step){.in = {producer, PRODUCER_IDLE}, .call = op, .sizes = sizes}, result);
}
SLOW void releasing_rest(struct producer *producer, uint8_t op, struct hook_sizes sizes, const void *object) {
  step_releasing(&(struct step){.in = {producer, PRODUCER_IDLE}, .call = op, .sizes = sizes}, PRODUCER_CALLING, object);
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
    step_acquired(&(struct step){.in = in, .call = op, .sizes = sizes}, result);
  return result;
}

/* Where the hook with that FRAME was called from. */
static inline struct place place_of(void *const *frame) {
  return (struct place){frame[-1], (uintptr_t)frame};
}

/* After the real call, where the step is not of the common case. False: nothing was recorded, and the thread is not in
   state IDLE. */
static inline __attribute__((always_inline)) bool acquired_stamped(uint8_t op, struct hook_sizes sizes, bool large,
                                                                   void *result, uintptr_t frame) {
  struct producer_event event = step_of(call_of_op(op, &sizes), result);
  struct producer *producer = producer_if_idle();
  if (!producer)
    return false;
  if (!large && result && producer_record_unstamped(producer, event))
    return true;
  producer_begin(producer, PRODUCER_RECORDING, frame);
  struct producer_entry in = {producer, PRODUCER_IDLE};
  if (large)
    step_acquired(&(struct step){.in = in, .call = op, .sizes = sizes}, result);
  else if (producer_record_stamped(producer, event))
    producer_leave(in);
  else
    acquired_rest(producer, op, sizes, result);
  return true;
}

/* The end of a hook that acquires, after its common case has failed. Returns result. A skipped call is detected before
   any registers have been saved. */
#define ACQUIRED_NOT_QUICK(ident)                                                                                      \
  SLOW void *ident##_stamped(struct hook_sizes sizes, void *result, void *const *frame) {                              \
    if (!acquired_stamped(CALL_##ident, sizes, false, result, (uintptr_t)frame))                                       \
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

/* The complete uncommon case of a release, where the thread is in state IDLE, in which the real call is made. False: it
   is not, and nothing was done. *real_one false: the object is of the bootstrap arena, and the real function must not
   be called. */
static inline __attribute__((always_inline)) bool release_stamped(uint8_t op, struct hook_sizes sizes,
                                                                  const void *object, uintptr_t frame, bool *real_one) {
  struct hook_call call = call_of_op(op, &sizes);
  struct producer_event event = step_of(call, object);
  struct producer_entry in = {producer_if_idle(), PRODUCER_IDLE};
  if (!in.producer)
    return false;
  *real_one = true;
  event.op |= object ? 0 : CALL_NULL_IN;
  if (producer_record_unstamped(in.producer, event))
    return true;
  producer_begin(in.producer, PRODUCER_RECORDING, frame);
  event.op = op;
  event.stamped = !call.has_size;
  *real_one = !real_in_arena(object);
  if (!*real_one)
    host_count_missing();
  else if (large_may_be(object) || !producer_record_stamped(in.producer, event))
    releasing_rest(in.producer, op, sizes, object);
  producer_leave(in);
  return true;
}

#define RELEASED_NOT_QUICK(ident, declaration, arguments, size, param, free_it)                                        \
  SLOW void ident##_stamped DECL_PLUS_FRAME declaration {                                                              \
    struct place place = place_of(frame);                                                                              \
    bool real_one;                                                                                                     \
    if (!release_stamped(CALL_##ident, (struct hook_sizes){size, param}, object, place.frame, &real_one))              \
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

/* Of musl's functions, those that acquire may call others of the malloc API, except malloc and realloc. */
#define MAY_CALL(ident) (CALL_##ident != CALL_malloc)
#define PARAM_OF(ident, value) (HAS_PARAM_##ident ? &(uint64_t){value} : NULL)
#define REQUEST(ident, size, param) (HAS_COUNT_##ident ? product(size, param) : (size))
#define CALL_AS(ident, size, param, small)                                                                             \
  ((struct hook_call){CALL_##ident, HAS_SIZE_##ident, small, REQUEST(ident, size, param), size, PARAM_OF(ident, param)})
#define QUICK_CALL_OF(ident, size, param) CALL_AS(ident, size, param, (size) < RECORD_QUICK_BYTES) /* of a release */

/* A slow form's step. The optional columns are recorded by these alone. */
#define STEP(ident, entry, size, param)                                                                                \
  { entry, CALL_##ident, {size, param}, 0, real.malloc_usable_size }

#define HOOK_ACQUIRE(ident, result, declaration, arguments, size, param)                                               \
  SLOW result ident##_slow DECL_PLUS_CALLER declaration {                                                              \
    struct step step = STEP(ident, producer_enter_slow(PRODUCER_CALLING, caller, frame, OWN_FRAME), size, param);      \
    step.began = step_time(step.in);                                                                                   \
    result got = real.ident arguments;                                                                                 \
    if (step.in.producer)                                                                                              \
      step_acquired(&step, got);                                                                                       \
    return got;                                                                                                        \
  }                                                                                                                    \
  ACQUIRED_NOT_QUICK(ident)                                                                                            \
  SLOW result ident##_large DECL_PLUS_FRAME declaration {                                                              \
    struct place place = place_of(frame);                                                                              \
    if (producer_may_skip() && producer_skip(place.caller))                                                            \
      return real.ident arguments;                                                                                     \
    result got = real.ident arguments;                                                                                 \
    if (!acquired_stamped(CALL_##ident, (struct hook_sizes){size, param}, true, got, place.frame))                     \
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
    uint32_t what = PRODUCER_CALLING | PRODUCER_RELEASES;                                                              \
    struct step step = STEP(ident, producer_enter_slow(what, caller, frame, NULL), size, param);                       \
    if (step.in.producer)                                                                                              \
      step_releasing(&step, PRODUCER_CALLING, object);                                                                 \
    step.began = step_time(step.in);                                                                                   \
    real.ident arguments;                                                                                              \
    if (step.in.producer)                                                                                              \
      step_released(&step, object);                                                                                    \
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
    struct step step = STEP(ident, producer_enter_slow(PRODUCER_CALLING, caller, frame, OWN_FRAME), size, param);      \
    if (!step.in.producer)                                                                                             \
      return real.ident arguments;                                                                                     \
    struct resize resize = step_resizing(&step, object);                                                               \
    step.began = step_time(step.in);                                                                                   \
    result got = real.ident arguments;                                                                                 \
    step_resized(&step, resize, got);                                                                                  \
    return got;                                                                                                        \
  }                                                                                                                    \
  SLOW result ident##_end_stamped(struct hook_sizes sizes, void *got, void *object, void *const *frame) {              \
    struct producer_entry in = {producer_if_idle(), PRODUCER_IDLE};                                                    \
    if (in.producer)                                                                                                   \
      producer_begin(in.producer, PRODUCER_RECORDING, (uintptr_t)frame);                                               \
    else                                                                                                               \
      in = producer_enter_slow(PRODUCER_CALLING, frame[-1], (uintptr_t)frame, NULL);                                   \
    if (in.producer)                                                                                                   \
      step_resized(&(struct step){.in = in, .call = CALL_##ident, .sizes = sizes}, (struct resize){object, true, 0},   \
                   got);                                                                                               \
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
    struct step step = STEP(ident, in, size, param);                                                                   \
    struct resize resize = step_resizing(&step, object);                                                               \
    result got = real.ident arguments;                                                                                 \
    step_resized(&step, resize, got);                                                                                  \
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
  struct step step = STEP(posix_memalign, in, size, align);
  step.began = step_time(in);
  int error = real.posix_memalign(result, align, size);
  if (in.producer)
    step_acquired(&step, error ? NULL : *result);
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
  const struct hook_sizes none = {0};
  bool real_one;
  if (__builtin_expect(real_in_arena(object), 0)) {
    host_count_missing();
    return real_arena_usable(object);
  }
  if ((producer_may_skip() && producer_skip(frame[-1])) ||
      release_stamped(CALL_malloc_usable_size, none, object, (uintptr_t)frame, &real_one))
    return real.malloc_usable_size(object);
  uint32_t what = PRODUCER_CALLING | PRODUCER_TOUCHES;
  struct step step = STEP(malloc_usable_size, producer_enter_slow(what, frame[-1], (uintptr_t)frame, NULL), 0, 0);
  if (step.in.producer)
    step_releasing(&step, PRODUCER_CALLING, object);
  step.began = step_time(step.in);
  size_t usable_bytes = real.malloc_usable_size(object);
  if (step.in.producer)
    step_released(&step, object);
  return usable_bytes;
}

EXPORT size_t malloc_usable_size(void *object) {
  struct hook_call call = {.op = CALL_malloc_usable_size, .small = true};
  if (host_state.quick_bytes[0] && producer_record_quick(producer_mine, step_of(call, object)))
    return real.malloc_usable_size(object);
  return malloc_usable_size_slow(object, FRAME);
}

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
    new_ends(&thrown);
    step_acquired(&(struct step){.in = thrown.in, .call = thrown.op, .sizes = thrown.sizes}, NULL);
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
    step_acquired(&(struct step){.in = in, .call = op, .sizes = {get(context, RBX), 0}}, NULL);
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
    struct step step = STEP(ident, in, size, param);                                                                   \
    bool is_malloc = !HAS_PARAM_##ident && (operators.flags & OPERATORS_NEW_IS_MALLOC) && is_outermost(in);            \
    step.began = step_time(in);                                                                                        \
    void *got = is_malloc ? real.malloc(size + !size) : NULL; /* else its latency would have that of our own hook */   \
    if (!got)                                                                                                          \
      got = call_##ident ARGS_PLUS_ENTRY arguments;                                                                    \
    step_acquired(&step, got);                                                                                         \
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
    struct step step = STEP(ident, in, size, param);                                                                   \
    if (in.producer)                                                                                                   \
      step_releasing(&step, PRODUCER_DELETE, object);                                                                  \
    step.began = step_time(in);                                                                                        \
    if (is_outermost(in) && operators.quick_##ident)                                                                   \
      operators.quick_##ident arguments;                                                                               \
    else                                                                                                               \
      operators.ident arguments;                                                                                       \
    __asm__ volatile(""); /* no jump */                                                                                \
    if (in.producer)                                                                                                   \
      step_released(&step, object);                                                                                    \
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

#define OPERATOR(ident, symbol, kind, result, declaration, arguments, size, param)                                     \
  OPERATOR_##kind##_HOOK(ident, declaration, arguments, size, param)
#include "capture/host/real/entry_points.def"

static void record_live(const void *object, uint64_t bytes) {
  struct producer_entry in = producer_enter(PRODUCER_CALLING | PRODUCER_TOUCHES, CALLER);
  if (!in.producer)
    return;
  step_live(in, object, bytes);
  producer_leave(in);
}

/* Many programs never release their largest objects. If a program is killed, or calls _exit, it is not known how much
   of these is resident; the replay then touches only their first byte. */
__attribute__((destructor)) static void record_live_objects(void) {
  stack_wait_for_collector();
  if (producer_now() && !process_is_off())
    large_visit(record_live);
}

/* Names by which glibc exports the same functions: what one name acquires, another may release. They continue to the
   hook, or to real_libc_. The hook's second name is local: the program may define the first. */
#if defined(__x86_64__)
#define CONTINUE(ident)                                                                                                \
  "  endbr64\n  mov real_libc_" #ident "(%rip), %rax\n  test %rax, %rax\n"                                             \
  "  jz own_" #ident "\n  jmp *%rax\n"
#else
#define CONTINUE(ident)                                                                                                \
  "  adrp x16, real_libc_" #ident "\n  ldr x16, [x16, :lo12:real_libc_" #ident "]\n"                                   \
  "  cbz x16, 1f\n  br x16\n1:  b own_" #ident "\n"
#endif
#define ALSO_OF_LIBC(ident)                                                                                            \
  __asm__(".text\n.set own_" #ident ", " #ident "\n.globl __libc_" #ident "\n.type __libc_" #ident ", %function\n"     \
          "__libc_" #ident ":\n  .cfi_startproc\n" CONTINUE(ident) "  .cfi_endproc\n.size __libc_" #ident              \
                                                                   ", .-__libc_" #ident "\n");
REAL_LIBC_NAMES(ALSO_OF_LIBC)
