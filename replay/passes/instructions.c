#include "replay/passes/instructions.h"

/* Callgrind distinguishes callers by name: one function for each kind of call. The text in the assembly keeps the
   compiler from making one of them all, and stands behind the call so that it is no jump. */
#define CALL(id, ident, name, acquires, released, size, param)                                                         \
  static __attribute__((noinline)) void *heaptape_calls_##ident(uint8_t entry, const struct op *op) {                  \
    uint64_t cycles;                                                                                                   \
    void *object = call_entry(entry, op, false, &cycles);                                                              \
    __asm__ volatile("# " #ident ::: "memory");                                                                        \
    return object;                                                                                                     \
  }
#include "core/trace/calls.def"
#undef CALL

void *instructions_call(struct worker *worker, uint8_t entry, const struct op *op) {
  static void *(*const callers[CALL_LIMIT])(uint8_t, const struct op *) = {
#define CALL(id, ident, name, acquires, released, size, param) [id] = heaptape_calls_##ident,
#include "core/trace/calls.def"
#undef CALL
  };
  uint8_t id = op->call & CALL_ID_MASK;
  worker->call_counts[id]++;
  return callers[id](entry, op);
}
