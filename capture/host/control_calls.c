/* SPDX-License-Identifier: MIT */
#include "capture/host/control_calls.h"

#include "capture/host/process.h"
#include "capture/host/real/real.h"
#include "capture/host/steps.h"

/* glibc's struct mallinfo and mallinfo2, whose members do not matter here. */
struct control_mallinfo {
  int member[10];
};
struct control_mallinfo2 {
  size_t member[10];
};

enum {
#define CONTROL(ident, ...) PLACE_##ident,
#include "capture/host/control_calls.def"
  FUNCTIONS
};

/* Records the call that began then and has returned. */
static void called(uint8_t id, struct hook_sizes sizes, uint64_t began, const void *caller, uintptr_t frame) {
  struct producer_entry in = producer_enter_slow(PRODUCER_CALLING | PRODUCER_TOUCHES, caller, frame, NULL);
  if (!in.producer)
    return;
  struct hook_call call = call_of_op(id, &sizes);
  struct producer_event event = step_of(call, NULL);
  event.stamped = !call.has_size;
  if (in.was != PRODUCER_RECORDING)
    in.producer->tick = ownership_tick() - 1; /* so that the step has a stamp */
  bool recorded = producer_record_simulated(in, event) || producer_record(in, event, NULL);
  producer_report_event(in, recorded, NULL, 0, NULL);
  step_released(&(struct step){.in = in, .call = id, .began = began}, NULL);
}

static uint64_t begins(void) {
  return host_state.flags & ATTACH_LATENCY ? os_stamp() : 0;
}

/* The union turns the data pointer of a look-up into a function pointer without a cast that ISO C forbids. */
#define REAL(ident, result, declaration)                                                                               \
  union {                                                                                                              \
    void *data;                                                                                                        \
    result(*code) declaration;                                                                                         \
  } real_one = {.data = control_functions()[PLACE_##ident].real}
#define CALLED(ident, size, param)                                                                                     \
  called(CALL_##ident, (struct hook_sizes){size, param}, began, __builtin_return_address(0), os_stack_pointer())
#define HOOK_LIBC(symbol, result, ident, declaration)                                                                  \
  __attribute__((visibility("default"))) result hook_##ident declaration __asm__(symbol);                              \
  result hook_##ident declaration
#define HOOK_ALLOCATOR(symbol, result, ident, declaration) static result hook_##ident declaration

#define CONTROL(ident, symbol, kind, result, declaration, arguments, size, param)                                      \
  HOOK_##kind(symbol, result, ident, declaration) {                                                                    \
    REAL(ident, result, declaration);                                                                                  \
    result got = {0};                                                                                                  \
    if (!real_one.data)                                                                                                \
      return got;                                                                                                      \
    uint64_t began = begins();                                                                                         \
    got = real_one.code arguments;                                                                                     \
    CALLED(ident, size, param);                                                                                        \
    return got;                                                                                                        \
  }
#define CONTROL_NOTHING(ident, symbol, kind, declaration, arguments, size, param)                                      \
  HOOK_##kind(symbol, void, ident, declaration) {                                                                      \
    REAL(ident, void, declaration);                                                                                    \
    if (!real_one.data)                                                                                                \
      return;                                                                                                          \
    uint64_t began = begins();                                                                                         \
    real_one.code arguments;                                                                                           \
    CALLED(ident, size, param);                                                                                        \
  }
#include "capture/host/control_calls.def"

const size_t control_function_count = FUNCTIONS;

/* Threads that look up at the same time write the same. */
struct control_function *control_functions(void) {
  enum { EXPORTED_LIBC = true, EXPORTED_ALLOCATOR = false };
  static struct control_function functions[FUNCTIONS] = {
#define CONTROL(ident, symbol, kind, ...) {symbol, (void *)(uintptr_t)hook_##ident, NULL, EXPORTED_##kind},
#include "capture/host/control_calls.def"
  };
  static _Atomic bool found;
  if (!found && real_resolve()) {
    struct symbols_wanted wanted[FUNCTIONS];
    for (size_t i = 0; i < FUNCTIONS; i++)
      wanted[i] = (struct symbols_wanted){functions[i].name, NULL};
    symbols_next_all(wanted, FUNCTIONS);
    for (size_t i = 0; i < FUNCTIONS; i++)
      functions[i].real = wanted[i].code;
    found = true;
  }
  return functions;
}
