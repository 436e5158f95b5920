/* SPDX-License-Identifier: MIT */
/* realloc(p, 0), a failed realloc, free(NULL), a failed posix_memalign, an overflowing reallocarray and the like:
   events hold the request and the result. */
#include "capture/test/hosts/recording.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>

enum { MARK_BYTES = 4321 };
static volatile size_t huge = SIZE_MAX; /* volatile: the compiler warns of calls it knows to be too large */

int host(void) {
  void *other = NULL;
  void *object = keep(malloc(MARK_BYTES));
  void *same = object; /* hides from the compiler that a failed resize leaves the object alone */
  __asm__ volatile("" : "+r"(same));
  if (keep(realloc(object, huge / 2)))
    return 2;
  void *gone = keep(realloc(same, 0));
  free(gone);
  free(keep(NULL));
  object = keep(realloc(NULL, MARK_BYTES));
  same = object;
  __asm__ volatile("" : "+r"(same));
  if (keep(reallocarray(object, huge, 16))) /* overflows */
    return 3;
  object = same;
  malloc_usable_size(object);
  malloc_usable_size(keep(NULL));
  object = keep(reallocarray(object, 3, MARK_BYTES));
  free(object);
  if (posix_memalign(&other, 3, MARK_BYTES) == 0 || posix_memalign(&other, 64, MARK_BYTES) != 0)
    return 1;
  free(other);
  free(keep(calloc(3, MARK_BYTES)));
  free(keep(aligned_alloc(128, MARK_BYTES)));
  free(keep(malloc(huge / 2)));
  return 0;
}

#define N CALL_NULL_IN
#define F CALL_NULL_OUT
static const struct expected {
  uint8_t call;
  uint64_t size, param;
} expected[] = {
    {CALL_malloc, MARK_BYTES, 0},
    {CALL_realloc | F, SIZE_MAX / 2, 0},
    {CALL_realloc | F, 0, 0},
    {CALL_free | N, 0, 0},
    {CALL_free | N, 0, 0},
    {CALL_realloc | N, MARK_BYTES, 0},
    {CALL_reallocarray | F, 16, SIZE_MAX},
    {CALL_malloc_usable_size, 0, 0},
    {CALL_malloc_usable_size | N, 0, 0},
    {CALL_reallocarray, MARK_BYTES, 3},
    {CALL_free, 0, 0},
    {CALL_posix_memalign | F, MARK_BYTES, 3},
    {CALL_posix_memalign, MARK_BYTES, 64},
    {CALL_free, 0, 0},
    {CALL_calloc, MARK_BYTES, 3},
    {CALL_free, 0, 0},
    {CALL_aligned_alloc, MARK_BYTES, 128},
    {CALL_free, 0, 0},
    {CALL_malloc | F, SIZE_MAX / 2, 0},
    {CALL_free | N, 0, 0},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

static void compare(void *context, uint32_t thread, const struct trace_event *event) {
  int *at = context;
  (void)thread;
  if (*at == 0 && event->size_bytes != MARK_BYTES)
    return; /* the program has not begun */
  if (*at >= EXPECTED)
    return; /* it has ended */
  const struct expected *e = &expected[*at];
  CHECK(event->call == e->call && event->size_bytes == e->size && event->param == e->param,
        "event %d: call %#x size %#llx param %#llx", *at, event->call, (unsigned long long)event->size_bytes,
        (unsigned long long)event->param);
  ++*at;
}

int test(void) {
  CHECK(record_self(NULL) == 0, "the host failed");
  int at = 0;
  read_trace("t.tape", compare, &at);
  CHECK(at == EXPECTED, "only %d of %d events", at, EXPECTED);
  return 0;
}
