/* SPDX-License-Identifier: MIT */
#include "capture/host/hooks/control_calls.h"

#include "capture/host/hooks/named_controls.h"
#include "capture/host/hooks/steps.h"
#include "capture/host/process.h"
#include "capture/host/real/real.h"

#include <errno.h>

/* glibc's struct mallinfo and mallinfo2, whose members do not matter here. */
struct control_mallinfo {
  int member[10];
};
struct control_mallinfo2 {
  size_t member[10];
};

enum {
#define CONTROL(ident, ...) PLACE_##ident,
#include "capture/host/hooks/control_calls.def"
  FUNCTIONS
};

/* How many control calls this thread is in: one that an allocator makes inside another is a part of that. */
static __thread unsigned inside __attribute__((tls_model("initial-exec")));

void control_called(uint8_t id, struct hook_sizes sizes, uint64_t began, const void *caller, uintptr_t frame) {
  struct producer_entry in = producer_enter_slow(PRODUCER_CALLING | PRODUCER_TOUCHES, caller, frame, NULL);
  if (!in.producer)
    return;
  struct hook_call call = call_of_op(id, &sizes);
  struct producer_event event = step_of(call, NULL);
  event.stamped = !call.has_size;
  if (in.was != PRODUCER_RECORDING)
    in.producer->tick = ownership_tick() - 1; /* so that the step has a stamp */
  bool recorded = producer_record(in, event, NULL);
  producer_report_event(in, recorded, NULL, 0, NULL);
  step_released(&(struct step){.in = in, .call = id, .began = began}, NULL);
}

uint64_t control_begins(void) {
  inside++;
  return host_state.flags & ATTACH_LATENCY ? os_stamp() : 0;
}

bool control_ends(void) {
  return --inside == 0;
}

/* The union turns the data pointer of a look-up into a function pointer without a cast that ISO C forbids. */
#define REAL(ident, result, declaration)                                                                               \
  union {                                                                                                              \
    void *data;                                                                                                        \
    result(*code) declaration;                                                                                         \
  } real_one = {.data = control_functions()[PLACE_##ident].real}
#define CALLED(call, ...)                                                                                              \
  control_called(CALL_##call, (struct hook_sizes){__VA_ARGS__}, began, __builtin_return_address(0), os_stack_pointer())
#define HOOK_LIBC(symbol, result, ident, declaration)                                                                  \
  __attribute__((visibility("default"))) result hook_##ident declaration __asm__(symbol);                              \
  result hook_##ident declaration
#define HOOK_ALLOCATOR(symbol, result, ident, declaration) static result hook_##ident declaration
#define HOOK_VIRTUAL HOOK_ALLOCATOR

#define CONTROL(ident, call, symbol, kind, result, declaration, arguments, size, param)                                \
  HOOK_##kind(symbol, result, ident, declaration) {                                                                    \
    REAL(ident, result, declaration);                                                                                  \
    result got = {0};                                                                                                  \
    if (!real_one.data)                                                                                                \
      return got;                                                                                                      \
    uint64_t began = control_begins();                                                                                 \
    got = real_one.code arguments;                                                                                     \
    if (control_ends())                                                                                                \
      CALLED(call, size, param);                                                                                       \
    return got;                                                                                                        \
  }
#define CONTROL_NOTHING(ident, call, symbol, kind, declaration, arguments, size, param)                                \
  HOOK_##kind(symbol, void, ident, declaration) {                                                                      \
    REAL(ident, void, declaration);                                                                                    \
    if (!real_one.data)                                                                                                \
      return;                                                                                                          \
    uint64_t began = control_begins();                                                                                 \
    real_one.code arguments;                                                                                           \
    if (control_ends())                                                                                                \
      CALLED(call, size, param);                                                                                       \
  }

/* Functions whose option is a name. Their forms: parameters, arguments, and whether they changed something. */
#define PARAMETERS_MALLCTL (const char *name, void *old, size_t *old_bytes, const void *value, size_t bytes)
#define ARGUMENTS_MALLCTL (name, old, old_bytes, value, bytes)
#define CHANGED_MALLCTL(to_mib)                                                                                        \
  (got == 0 && named_mallctl(control_option_named(MALLCTL, name), &(struct mallctl_passed){old, value, bytes}, &sizes))
#define PARAMETERS_MALLCTL_MIB                                                                                         \
  (const size_t *mib, size_t count, void *old, size_t *old_bytes, const void *value, size_t bytes)
#define ARGUMENTS_MALLCTL_MIB (mib, count, old, old_bytes, value, bytes)
#define CHANGED_MALLCTL_MIB(to_mib)                                                                                    \
  (got == 0 &&                                                                                                         \
   named_mallctl(named_of_mib(to_mib, NULL, mib, count), &(struct mallctl_passed){old, value, bytes}, &sizes))
#define PARAMETERS_PROPERTY (const char *name, size_t value)
#define ARGUMENTS_PROPERTY (name, value)
#define CHANGED_PROPERTY(to_mib)                                                                                       \
  ((got & 0xff) != 0 && /* a bool */                                                                                   \
   (sizes = (struct hook_sizes){control_value_kept((int64_t)value), control_option_named(PROPERTY, name)}, true))
#define PARAMETERS_MEMBER_PROPERTY (void *self, const char *name, size_t value)
#define ARGUMENTS_MEMBER_PROPERTY (self, name, value)
#define CHANGED_MEMBER_PROPERTY CHANGED_PROPERTY

#define CONTROL_NAMED(ident, call, symbol, kind, form, to_mib)                                                         \
  HOOK_##kind(symbol, int, ident, PARAMETERS_##form) {                                                                 \
    REAL(ident, int, PARAMETERS_##form);                                                                               \
    struct hook_sizes sizes;                                                                                           \
    if (!real_one.data)                                                                                                \
      return ENOENT;                                                                                                   \
    uint64_t began = control_begins();                                                                                 \
    int got = real_one.code ARGUMENTS_##form;                                                                          \
    if (control_ends() && CHANGED_##form(to_mib))                                                                      \
      CALLED(call, sizes.size, sizes.param);                                                                           \
    return got;                                                                                                        \
  }
#include "capture/host/hooks/control_calls.def"

const size_t control_function_count = FUNCTIONS;

/* Of a program that was running when its recording began: what the recorder has found. */
static void take_listed(struct control_function *functions, const struct redirect_call *listed) {
  while (listed->name && listed->name != functions[0].name)
    listed++;
  for (size_t i = 0; listed->name && i < FUNCTIONS; i++)
    functions[i].real = (void *)(uintptr_t)listed[i].real;
}

static void look_up(struct control_function *functions) {
  struct symbols_wanted wanted[FUNCTIONS];
  for (size_t i = 0; i < FUNCTIONS; i++)
    wanted[i] = (struct symbols_wanted){functions[i].name, NULL};
  symbols_next_all(wanted, FUNCTIONS);
  for (size_t i = 0; i < FUNCTIONS; i++)
    functions[i].real = wanted[i].code;
}

/* Threads that look up at the same time write the same. */
struct control_function *control_functions(void) {
  static struct control_function functions[FUNCTIONS] = {
#define CONTROL(ident, call, symbol, kind, ...) {symbol, (void *)(uintptr_t)hook_##ident, NULL, CONTROL_##kind},
#include "capture/host/hooks/control_calls.def"
  };
  static _Atomic bool found;
  if (!found && real_resolve()) {
    if (redirected_table())
      take_listed(functions, redirected_table()->call);
    else
      look_up(functions);
    found = true;
  }
  return functions;
}
