/* SPDX-License-Identifier: MIT */
#include "replay/passes/instructions.h"

#include "core/system/valgrind_requests.h"

/* The tool distinguishes callers by address: one function for each kind of call, in its own section,
   whose first and last address the linker defines. The text in the assembly keeps the compiler from merging these
   functions, and is behind the call so that the call does not become a jump. */
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  static __attribute__((noinline, section("heaptape_code_" #ident))) void *heaptape_calls_##ident(                     \
      uint8_t entry, const struct op *op) {                                                                            \
    uint64_t cycles;                                                                                                   \
    void *object = call_entry(entry, op, false, &cycles);                                                              \
    __asm__ volatile("# " #ident ::: "memory");                                                                        \
    return object;                                                                                                     \
  }
#include "core/trace/calls.def"

void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op) {
  static void *(*const callers[CALL_LIMIT])(uint8_t, const struct op *) = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = heaptape_calls_##ident,
#include "core/trace/calls.def"
  };
  uint8_t id = op->call & CALL_ID_MASK;
  worker->call_counts[id]++;
  return callers[id](entry, op);
}

#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  extern const char __start_heaptape_code_##ident[], __stop_heaptape_code_##ident[];
#include "core/trace/calls.def"

void instructions_begin(void) {
  static const struct {
    unsigned long kind;
    const char *first, *end;
  } callers[] = {
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  {id, __start_heaptape_code_##ident, __stop_heaptape_code_##ident},
#include "core/trace/calls.def"
  };
  for (size_t index = 0; index < sizeof callers / sizeof *callers; index++)
    valgrind_request(VALGRIND_REQUEST_CALLER,
                     (const unsigned long[VALGRIND_ARGUMENTS]){callers[index].kind, (unsigned long)callers[index].first,
                                                               (unsigned long)callers[index].end});
}

void instructions_loaded(void) {
  valgrind_request(VALGRIND_REQUEST_LOADED, (const unsigned long[VALGRIND_ARGUMENTS]){0});
}

void instructions_started(void) {
  valgrind_request(VALGRIND_REQUEST_STARTED, (const unsigned long[VALGRIND_ARGUMENTS]){0});
}
