/* SPDX-License-Identifier: MIT */
/* Calls the allocator under test: the one place where a replayed op becomes a function call.

   Job: find the process's entry points, or the null allocator's, and make a call of any kind, timed or not. Invariants:
   each kind of call has its own call site, as in a program, so that the branch predictor can distinguish them; in a
   timed call only the call is between the two readings of the counter; the entry points are those that a program linked
   against libc would get, with interposed libraries. Nothing here uses malloc before the first call. */
#pragma once

#include "core/base/os.h"
#include "core/trace/control_names.h"
#include "core/trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One op, decoded. */
struct op {
  uint8_t call;   /* as recorded: id and flags */
  uint8_t region; /* region of the isolated heap that serves it; 0: the allocator under test */
  uint32_t slot;
  uint64_t size_bytes;
  uint64_t param;
  uint64_t request_bytes; /* size, or count x size, saturated */
  uint64_t touched;       /* OS pages touched, plus 1; 0: not known */
  void *pointer;          /* passed in; NULL if none */
};

/* What the engine must do for a call byte, looked up once per op. */
enum call_trait {
  CALL_TAKES = 1,        /* passes its slot's pointer in; 1, as loop.h makes a mask of it */
  CALL_RELEASES = 2,     /* and releases the object */
  CALL_ACQUIRES = 4,     /* and stores the object that it returns */
  CALL_COUNTED = 8,      /* request = count x size */
  CALL_UNUSUAL = 16,     /* any of the following is set */
  CALL_SUBSTITUTED = 32, /* a plainer entry point is called instead */
  CALL_ILLEGAL = 64,     /* no such call */
  CALL_SLOTLESS = 128    /* passes NULL, has no object */
};

struct call_dispatch {
  uint8_t entry; /* id of the entry point that is called */
  uint8_t traits;
};

struct allocator {
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute) void *(*ident)types;
#define ENTRY_NOTHING(ident, symbol, types, arguments, substitute) void(*ident) types;
#define ENTRY_OUT(ident, symbol, types, arguments, substitute) int(*ident) types;
#include "replay/calls/entry.def"
};

extern struct allocator allocator;
extern struct call_dispatch call_dispatches[256]; /* by call byte */

/* Fills in both tables from the process's own malloc. Returns whether that is the C library's. Functions that the
   allocator does not define stay NULL: make no op for which call_lacks is true, and none at all without free.
   as_malloc: every acquire becomes malloc and every release free; calloc then clears the memory, realloc copies as much
   as malloc_usable_size returns, and the alignment is malloc's. */
bool call_setup_process(bool as_malloc);

/* Fills in both tables with the null allocator, which bumps through reserved memory that is never touched, and whose
   frees do nothing. Returns 0, or -1 with errno set: no address space. */
int call_setup_null(bool as_malloc);

/* Returns whether byte is a legal call byte for which the allocator has neither the entry point nor a substitute. */
bool call_lacks(uint8_t byte);

/* Returns the entry point that is tried where the allocator lacks that of this id; the same id if there is none. At
   most MOST_SUBSTITUTES are tried one after the other: the substitutes of aligned calls form a circle. */
enum { MOST_SUBSTITUTES = 3 };
uint8_t call_substitute(uint8_t id);

/* Returns the usable size of an object, also of the isolated heap; SIZE_MAX if the allocator has no malloc_usable_size.
 */
size_t call_usable_size(void *object);

/* Frees an object of the allocator or of the isolated heap, after the last op. */
void call_free(void *object);

/* Makes the op in the isolated heap. call_entry calls this where op->region is not 0. */
void *call_isolated(const struct op *op);

/* An empty call, timed as call_entry times. */
void call_nothing(uint64_t *cycles);

/* Makes the call. Returns the object, or NULL. timed: *cycles is the counter's advance, with the cost of timing. */
static inline __attribute__((always_inline)) void *call_entry(uint8_t entry, const struct op *op, const bool timed,
                                                              uint64_t *cycles) {
  void *out = NULL;
  uint64_t begin = 0;
/* The error of other ways to fence the readings: os_span_begin, docs/measurements/pace.md. */
#define TIMED(statement)                                                                                               \
  if (timed)                                                                                                           \
    begin = os_span_begin();                                                                                           \
  statement;                                                                                                           \
  if (timed)                                                                                                           \
    *cycles = os_span_end() - begin;
  if (__builtin_expect(op->region != 0, 0)) {
    /* A copy, so that the op itself, whose address is not taken elsewhere, can stay in registers. */
    const struct op copy = *op;
    TIMED(out = call_isolated(&copy))
    return out;
  }
  /* Separate branches for the two most frequent calls: where these come in random order, that saves 1 of 10 ns per op
     compared with the switch's jump table. */
  if (entry == CALL_free) {
    TIMED(allocator.free(op->pointer))
    return NULL;
  }
  if (entry == CALL_malloc) {
    TIMED(out = allocator.malloc(op->request_bytes))
    return out;
  }
  switch (entry) {
#define CASE(ident, statement)                                                                                         \
  case CALL_##ident:                                                                                                   \
    TIMED(statement)                                                                                                   \
    break;
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute) CASE(ident, out = allocator.ident arguments)
#define ENTRY_NOTHING(ident, symbol, types, arguments, substitute) CASE(ident, allocator.ident arguments)
#define ENTRY_OUT(ident, symbol, types, arguments, substitute)                                                         \
  CASE(ident, if (allocator.ident arguments != 0) out = NULL)
#include "replay/calls/entry.def"
#undef CASE
#undef TIMED
  default:
    __builtin_unreachable();
  }
  return out;
}
