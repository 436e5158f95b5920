/* SPDX-License-Identifier: MIT */
#include "replay/passes/misses.h"

#include "core/system/valgrind_requests.h"
#include "replay/engine/state.h"

#include <stddef.h>

/* The layout in which the tool reads the table. */
_Static_assert(sizeof(struct object) == 2 * sizeof(uint64_t) && offsetof(struct object, pointer) == 0,
               "an entry is two words, the first the object's address");

/* The assembly keeps the compiler from leaving the call out. */
__attribute__((noinline)) void misses_before_op(void) {
  __asm__ volatile("" ::: "memory");
}

void misses_started(void) {
  valgrind_request(VALGRIND_REQUEST_STARTED, (const unsigned long[5]){0});
}

void misses_begin(void) {
  valgrind_request(VALGRIND_REQUEST_CALLS, (const unsigned long[VALGRIND_ARGUMENTS]){(unsigned long)misses_before_op,
                                                                                     (unsigned long)engine.objects,
                                                                                     engine.workload.header.slots});
}
