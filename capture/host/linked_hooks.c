/* SPDX-License-Identifier: MIT */
/* The hooks of functions in the executable. What their parameters mean is in the table's entry. */
#include "capture/host/real/linked.h"
#include "capture/host/recording/steps.h"

#define CALLER __builtin_return_address(0), os_stack_pointer(), __builtin_frame_address(0)

/* A hook begins. own_frame: from which a walk of the stack may begin. */
static inline struct producer_entry enter(uint32_t what, const void *caller, uintptr_t frame, const void *own_frame) {
  struct producer *producer = producer_now();
  if (__builtin_expect(producer && producer_is_quick(producer->quick.state), 1))
    return producer_enter(what, caller, frame);
  return producer_enter_slow(what, caller, frame, own_frame);
}

static inline step_function *real_of(const struct linked_function *function) {
  union {
    uint64_t address;
    step_function *code;
  } real = {.address = function->real};
  return real.code;
}

/* What jemalloc's functions take as flags. */
enum { FLAG_ALIGN_MASK = 63, FLAG_ZERO = 64 };

static uint8_t call_by_flags(const struct linked_function *function, uint64_t flags) {
  bool aligned = flags & FLAG_ALIGN_MASK;
  switch (function->call) {
  case CALL_malloc:
    return aligned ? CALL_memalign : flags & FLAG_ZERO ? CALL_calloc : CALL_malloc;
  case CALL_free_sized:
    return aligned ? CALL_free_aligned_sized : CALL_free_sized;
  default:
    return function->call;
  }
}

static inline uint64_t parameter(const uintptr_t *parameters, uint8_t number, uint64_t none) {
  return number < LINKED_PARAMETERS ? parameters[number] : none;
}

static struct step step_of(struct producer_entry in, const struct linked_function *function,
                           const uintptr_t *parameters) {
  struct step step = {.in = in, .call = function->call};
  uint64_t count = parameter(parameters, function->count, 1);
  step.sizes.size = parameter(parameters, function->size, 0);
  if (__builtin_mul_overflow(step.sizes.size, count, &step.sizes.size))
    step.sizes.size = UINT64_MAX;                               /* it fails */
  step.sizes.param = parameter(parameters, function->param, 1); /* of an element count that is not said */
  if (function->style == LINKED_FLAGS) {
    step.call = call_by_flags(function, step.sizes.param);
    step.sizes.param = (uint64_t)1 << (step.sizes.param & FLAG_ALIGN_MASK);
  }
  step.began = step_time(in);
  return step;
}

static void look_at_usable(struct step *step, const struct linked_function *function, void *object) {
  union {
    uint64_t address;
    size_t (*code)(void *);
  } usable = {.address = function->usable};
  if (object && usable.address && step_wants_usable(step->in))
    step->usable_bytes = usable.code(object);
}

void *linked_acquire(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function) {
  struct producer_entry in = enter(PRODUCER_CALLING, CALLER);
  step_function *real = real_of(function);
  if (!in.producer)
    return real(a, b, c, d);
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  struct step step = step_of(in, function, parameters);
  void *got = real(a, b, c, d);
  look_at_usable(&step, function, got);
  step_acquired(&step, got);
  return got;
}

void *linked_acquire_or_throw(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                              const struct linked_function *function) {
  struct producer_entry in = enter(PRODUCER_NEW, CALLER);
  step_function *real = real_of(function);
  if (!in.producer)
    return real(a, b, c, d);
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  struct step step = step_of(in, function, parameters);
  void *got = step_call_throwing(&step, real, parameters);
  look_at_usable(&step, function, got);
  step_acquired(&step, got);
  return got;
}

/* Also of what touches. state: during the real call. */
static inline __attribute__((always_inline)) void *release_in(struct producer_entry in, enum producer_state state,
                                                              const uintptr_t *parameters,
                                                              const struct linked_function *function) {
  step_function *real = real_of(function);
  const void *object = (const void *)parameter(parameters, function->object, 0);
  if (!in.producer)
    return real(parameters[0], parameters[1], parameters[2], parameters[3]);
  struct step step = step_of(in, function, parameters);
  step_releasing(&step, state, object);
  step.began = step_time(in);
  void *result = real(parameters[0], parameters[1], parameters[2], parameters[3]);
  step_released(&step, object);
  return result;
}

void linked_release(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function) {
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  release_in(enter(PRODUCER_CALLING | PRODUCER_RELEASES, CALLER), PRODUCER_CALLING, parameters, function);
}

void linked_release_by_operator(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                                const struct linked_function *function) {
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  release_in(enter(PRODUCER_DELETE | PRODUCER_RELEASES, CALLER), PRODUCER_DELETE, parameters, function);
}

void *linked_touch(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function) {
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  return release_in(enter(PRODUCER_CALLING | PRODUCER_TOUCHES, CALLER), PRODUCER_CALLING, parameters, function);
}

void *linked_resize(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function) {
  struct producer_entry in = enter(PRODUCER_CALLING, CALLER);
  step_function *real = real_of(function);
  if (!in.producer)
    return real(a, b, c, d);
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  struct step step = step_of(in, function, parameters);
  struct resize begun = step_resizing(&step, (const void *)parameter(parameters, function->object, 0));
  step.began = step_time(in);
  void *got = real(a, b, c, d);
  look_at_usable(&step, function, got);
  step_resized(&step, begun, got);
  return got;
}

/* posix_memalign, which returns an error's number. */
void *linked_acquire_to_result(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                               const struct linked_function *function) {
  struct producer_entry in = enter(PRODUCER_CALLING, CALLER);
  step_function *real = real_of(function);
  if (!in.producer)
    return real(a, b, c, d);
  const uintptr_t parameters[LINKED_PARAMETERS] = {a, b, c, d};
  struct step step = step_of(in, function, parameters);
  void *error = real(a, b, c, d);
  void *got = (int)(uintptr_t)error ? NULL : *(void **)a;
  look_at_usable(&step, function, got);
  step_acquired(&step, got);
  return error;
}

/* What calls.def has no call for. */
void *linked_drop(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, const struct linked_function *function) {
  struct producer_entry in = enter(PRODUCER_CALLING, CALLER);
  if (in.producer)
    producer_drop(in.producer);
  void *result = real_of(function)(a, b, c, d);
  if (in.producer)
    producer_leave(in);
  return result;
}
