/* SPDX-License-Identifier: MIT */
/* Objects of the isolated heap (core/isolated/isolated_heap.h) do not overlap, are aligned, keep what is written to
   them, are zero if requested; and freed memory goes back to the kernel. */
#include "core/base/os.h"
#include "core/isolated/isolated_heap.h"
#include "core/test/check.h"

enum { SLOTS = 1500, STEPS = 20000 };

static struct {
  uint8_t *object;
  size_t size_bytes;
  uint8_t pattern;
} slots[SLOTS];

static uint64_t state = 3;
static uint64_t random_below(uint64_t limit) {
  return test_below(&state, limit);
}

/* Mostly small, some of each kind: classes, spans, separate mappings. */
static size_t some_size(void) {
  static const size_t limits[] = {1, 17, 130, 130, 300, 300, 5000, 17 << 10, 100 << 10, 3 << 20};
  size_t limit = limits[random_below(sizeof limits / sizeof *limits)];
  return limit > 1 << 20 && random_below(20) ? 200 : random_below(limit);
}

static uint64_t rss_anon_bytes(void) {
  char text[4096];
  FILE *file = fopen("/proc/self/status", "re");
  CHECK(file != NULL);
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = '\0';
  return strtoull(strstr(text, "RssAnon:") + 8, NULL, 10) << 10;
}

static void check_contents(unsigned slot, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    CHECK(slots[slot].object[i] == slots[slot].pattern);
}

static void fill(unsigned slot, size_t size_bytes) {
  slots[slot].size_bytes = size_bytes;
  slots[slot].pattern = (uint8_t)(1 + random_below(255));
  memset(slots[slot].object, slots[slot].pattern, size_bytes);
  CHECK(isolated_owns(slots[slot].object));
  CHECK(isolated_usable_bytes(slots[slot].object) >= size_bytes);
}

static void acquire(unsigned slot) {
  size_t align = random_below(4) ? 0 : (size_t)1 << random_below(18);
  struct isolated_request request = {some_size(), align, random_below(4) == 0};
  unsigned region = 1 + slot % 3;
  uint8_t *object = isolated_acquire(region, request);
  CHECK(object != NULL);
  CHECK((uintptr_t)object % (align > 16 ? align : 16) == 0);
  for (size_t i = 0; request.zeroed && i < request.size_bytes; i++)
    CHECK(object[i] == 0);
  slots[slot].object = object;
  fill(slot, request.size_bytes);
}

static void resize(unsigned slot) {
  size_t size = some_size(), kept = size < slots[slot].size_bytes ? size : slots[slot].size_bytes;
  uint8_t *object = isolated_resize(slots[slot].object, size);
  CHECK(object != NULL);
  slots[slot].object = object;
  check_contents(slot, kept);
  fill(slot, size);
}

static void release(unsigned slot) {
  check_contents(slot, slots[slot].size_bytes);
  isolated_release(slots[slot].object);
  slots[slot].object = NULL;
}

int main(void) {
  int local = 0;
  CHECK(!isolated_owns(&local));
  CHECK(isolated_setup(REGION_LIMIT, true) == 0);
  CHECK(!isolated_owns(&local) && !isolated_owns(slots));
  isolated_release(NULL);
  uint64_t before = rss_anon_bytes();
  for (unsigned step = 0; step < STEPS; step++) {
    unsigned slot = (unsigned)random_below(SLOTS);
    if (!slots[slot].object)
      acquire(slot);
    else if (random_below(3) == 0)
      resize(slot);
    else
      release(slot);
  }
  uint64_t peak = rss_anon_bytes() - before;
  for (unsigned slot = 0; slot < SLOTS; slot++)
    if (slots[slot].object)
      release(slot);
  /* What remains: a run of each region, and an OS page of each block. */
  uint64_t left = rss_anon_bytes() - before;
  CHECK(left < (uint64_t)3 * (256 << 10) + (1 << 20));
  CHECK(left < peak);
  CHECK(isolated_acquire(1, (struct isolated_request){.size_bytes = SIZE_MAX - 4096}) == NULL);
  return 0;
}
