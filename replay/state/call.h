/* SPDX-License-Identifier: MIT */
/* Calls the allocator under test: the one place where a replayed op becomes a function call.

   Job: find the process's entry points, or the null allocator's, and make a call of any kind, timed or not.
   Not its job: which call, on what object, and what to do with the result (loop.c).
   Invariants: each kind of call has a call site of its own, as in a program, so that the branch predictor tells them
   apart; in a timed call nothing but the call lies between the two readings of the counter; the entry points are those
   that a program linked against libc would get, interposed libraries included. Nothing here uses malloc before the
   first call. */
#pragma once

#include "core/base/os.h"
#include "core/trace/event.h"

#include <stddef.h>

/* One op, decoded. */
struct op {
  uint8_t call;   /* as recorded: id and flags */
  uint8_t region; /* memory apart that serves it; 0: the allocator under test */
  uint32_t slot;
  uint64_t size_bytes;
  uint64_t param;
  uint64_t request_bytes; /* size, or count x size, saturated */
  uint64_t touched;       /* OS pages plus 1; 0: not known */
  void *pointer;          /* passed in; NULL if none */
};

/* What the engine has to do for a call byte, looked up once per op. */
enum call_trait {
  CALL_TAKES = 1,        /* passes its slot's pointer in; 1, as loop.c makes a mask of it */
  CALL_RELEASES = 2,     /* and releases the object */
  CALL_ACQUIRES = 4,     /* and stores the object that it returns */
  CALL_COUNTED = 8,      /* request = count x size */
  CALL_UNUSUAL = 16,     /* one of the following */
  CALL_SUBSTITUTED = 32, /* a plainer entry point is called instead */
  CALL_ILLEGAL = 64,     /* no such call */
  CALL_SLOTLESS = 128    /* passes NULL, has no object */
};

struct call_plan {
  uint8_t entry; /* id of the entry point that is called */
  uint8_t traits;
};

struct allocator {
#define ENTRY_POINTER(ident, symbol, types, arguments, substitute) void *(*ident)types;
#define ENTRY_NOTHING(ident, symbol, types, arguments, substitute) void(*ident) types;
#define ENTRY_OUT(ident, symbol, types, arguments, substitute) int(*ident) types;
#include "replay/state/entry.def"
};

extern struct allocator allocator;
extern struct call_plan call_plans[256]; /* by call byte */

/* Fills in both from the process's own malloc. Returns whether that is the C library's. What the allocator does not
   define stays NULL: no op may be made of which call_lacks says so, and none at all without free. as_malloc: every
   acquire becomes malloc and every release free; calloc then clears what it got, realloc copies as much as
   malloc_usable_size returns, and alignment is what malloc gives. */
bool call_setup_process(bool as_malloc);

/* Fills in both with the null allocator: addresses from a bump of reserved memory that is never touched, frees that do
   nothing. Returns 0, or -1 with errno set: no address space. */
int call_setup_null(bool as_malloc);

/* Is it a legal call byte for which the allocator has neither the entry point nor one that stands in for it? */
bool call_lacks(uint8_t byte);

/* The entry point that is tried where the allocator does not have that of this id; the same id where there is none. No
   more than MOST_SUBSTITUTES are tried one after the other: those of aligned calls go round in a circle. */
enum { MOST_SUBSTITUTES = 3 };
uint8_t call_substitute(uint8_t id);

/* The malloc_usable_size of an object, of memory apart too; SIZE_MAX where the allocator has no such call. */
size_t call_usable_size(void *object);

/* Frees an object of the allocator's or of memory apart, as it is after the last op. */
void call_free(void *object);

/* The op in memory apart: what call_entry calls where op->region is not 0. */
void *call_apart(const struct op *op);

/* An empty call, timed as call_entry times. */
void call_nothing(uint64_t *cycles);

/* Makes the call. Returns the object, NULL if there is none. timed: *cycles is the counter's advance, the cost of
   timing included. */
static inline __attribute__((always_inline)) void *call_entry(uint8_t entry, const struct op *op, const bool timed,
                                                              uint64_t *cycles) {
  void *out = NULL;
  uint64_t begin = 0;
/* How the readings are fenced, and what each other way would cost in error: replay/bench/counter_reads.c,
   docs/measurements/replay.md. */
#define TIMED(statement)                                                                                               \
  if (timed)                                                                                                           \
    begin = os_span_begin();                                                                                           \
  statement;                                                                                                           \
  if (timed)                                                                                                           \
    *cycles = os_span_end() - begin;
  if (__builtin_expect(op->region != 0, 0)) {
    /* A copy, so that the op itself, whose address is not taken elsewhere, may stay in registers. */
    const struct op copy = *op;
    TIMED(out = call_apart(&copy))
    return out;
  }
  /* The most frequent two by branches of their own: where they come at random, that saves 1 of 10 ns per op against the
     switch's jump table. */
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
#include "replay/state/entry.def"
#undef CASE
#undef TIMED
  default:
    __builtin_unreachable();
  }
  return out;
}
