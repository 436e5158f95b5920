/* SPDX-License-Identifier: MIT */
/* The trace has the number of OS pages of a large object that were resident when it was released by free, realloc or
   reallocarray, and none for smaller objects, for failed resizes, or with --touch-min 0. The host's errno is
   unchanged. */
#include "capture/test/hosts/recording.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { MARK_BYTES = 4321, OBJECT_BYTES = 1 << 20, BIG_BYTES = 40 << 20, SMALL_BYTES = 60000, LEAST_BYTES = 64 << 10 };
static volatile size_t huge = SIZE_MAX;
static long page_bytes;

static char *touch(char *object, long pages) {
  for (long i = 0; i < pages; i++)
    ((volatile char *)object)[i * page_bytes] = 1;
  return object;
}

static void release(char *object) {
  errno = 1234;
  free(object);
  if (errno != 1234)
    _exit(3);
}

int host(void) {
  page_bytes = sysconf(_SC_PAGESIZE);
  mallopt(M_MMAP_THRESHOLD, 128 << 10); /* fixed: memory that was resident before is not handed out again */
  free(keep(malloc(MARK_BYTES)));
  release(keep(malloc(OBJECT_BYTES)));
  release(touch(keep(malloc(OBJECT_BYTES)), 10));
  char *all = keep(malloc(OBJECT_BYTES));
  memset(all, 1, OBJECT_BYTES);
  release(all);
  char *aligned = keep(aligned_alloc(1 << 16, OBJECT_BYTES));
  release(touch(aligned, 7));

  char *grown = touch(keep(malloc(OBJECT_BYTES)), 20);
  grown = keep(realloc(grown, 3 * OBJECT_BYTES));
  grown = keep(reallocarray(touch(grown, 30), BIG_BYTES / 8, 8));
  char *same = grown;
  __asm__ volatile("" : "+r"(same));
  if (keep(realloc(same, huge / 2)))
    return 2;
  memset(grown, 1, BIG_BYTES / 2);
  grown = keep(realloc(grown, BIG_BYTES + OBJECT_BYTES)); /* sampled */
  grown = keep(realloc(grown, MARK_BYTES));
  release(grown);

  release(touch(keep(calloc(16, LEAST_BYTES)), 5));
  char *small = keep(malloc(SMALL_BYTES));
  memset(small, 1, SMALL_BYTES);
  release(small);
  return 0;
}

#define UNKNOWN -1
static const struct expected {
  uint8_t call;
  long least, most;
} expected[] = {
    {CALL_free, 0, 0},
    {CALL_free, 10, 10},
    {CALL_free, 256, 256},
    {CALL_free, 7, 7},
    {CALL_realloc, 20, 20},
    {CALL_reallocarray, 30, 30},
    {CALL_realloc | CALL_NULL_OUT, UNKNOWN, UNKNOWN},
    {CALL_realloc, 5120 * 29 / 32, 5120 * 35 / 32},
    {CALL_realloc, 5120 * 29 / 32, 5120 * 35 / 32},
    {CALL_free, UNKNOWN, UNKNOWN},
    {CALL_free, 5, 5},
    {CALL_free, UNKNOWN, UNKNOWN},
};
enum { EXPECTED = sizeof expected / sizeof *expected };

static struct {
  uint64_t mark;
  int at;
  long known;
  bool off;
} seen;

static void compare(void *context, uint32_t thread, const struct trace_event *event) {
  (void)context;
  (void)thread;
  seen.known += event->touched_os_pages != 0;
  if (event->call == CALL_malloc && event->size_bytes == MARK_BYTES && !seen.mark)
    seen.mark = event->acquired;
  if (!seen.mark || !trace_event_takes(event) || (seen.at == 0 && event->released == seen.mark) || seen.at == EXPECTED)
    return;
  const struct expected *e = &expected[seen.at];
  long touched = (long)event->touched_os_pages - 1;
  CHECK(event->call == e->call, "release %d: call %#x", seen.at, event->call);
  CHECK(seen.off ? touched == UNKNOWN : touched >= e->least && touched <= e->most, "release %d: %ld OS pages", seen.at,
        touched);
  seen.at++;
}

static void record(const char *touch_min, bool off) {
  CHECK(record_self((const char *const[]){"--touch-min", touch_min, NULL}) == 0, "the host failed");
  memset(&seen, 0, sizeof seen);
  seen.off = off;
  read_trace("t.tape", compare, NULL);
  CHECK(seen.at == EXPECTED, "only %d of %d releases", seen.at, EXPECTED);
  CHECK((seen.known == 0) == off, "%ld releases known", seen.known);
}

int test(void) {
  if (sysconf(_SC_PAGESIZE) != 4096) {
    puts("the numbers here are of OS pages of 4096 bytes");
    return 77;
  }
  record("65536", false);
  record("0", true);
  return 0;
}
