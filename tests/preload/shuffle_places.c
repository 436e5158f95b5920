/* SPDX-License-Identifier: MIT */
/* Gives objects random places: a layer over any allocator, as in Stabilizer (Curtsinger and Berger, "STABILIZER:
   statistically sound performance evaluation", ASPLOS 2013).

   LD_PRELOAD=libshuffle_places.so SHUFFLE_DEPTH=N SHUFFLE_SEED=N program: of each size up to 1,008 bytes N objects are
   kept in reserve; malloc and calloc hand out one of them at random and put a new one in its place. A depth of 1 keeps
   the allocator's own order, a larger one mixes objects of longer stretches of the program. A depth and a seed give the
   same layout each time. For single-threaded programs. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { UNIT_BYTES = 16, SIZES = 64 };

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void **reserve[SIZES];
static size_t depth;
static uint64_t state;

static uint64_t number(const char *name) {
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : 1;
}

static void start(void) {
  depth = number("SHUFFLE_DEPTH");
  state = number("SHUFFLE_SEED") * 0x9e3779b97f4a7c15u + 1;
  *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
  *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
}

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state >> 32;
}

static void **fill_reserve(size_t units) {
  void **objects = next_malloc(depth * sizeof *objects);
  if (!objects)
    abort();
  for (size_t index = 0; index < depth; index++)
    objects[index] = next_malloc(units * UNIT_BYTES);
  return objects;
}

EXPORT void *malloc(size_t bytes) {
  if (!next_malloc)
    start();
  if (bytes > (SIZES - 1) * UNIT_BYTES)
    return next_malloc(bytes);
  size_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES;
  if (!reserve[units])
    reserve[units] = fill_reserve(units);
  void **place = &reserve[units][next_random() * depth >> 32];
  void *object = *place;
  *place = next_malloc(units * UNIT_BYTES);
  return object;
}

EXPORT void *calloc(size_t count, size_t bytes_each) {
  if (!next_malloc)
    start();
  size_t bytes;
  if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > (SIZES - 1) * UNIT_BYTES)
    return next_calloc(count, bytes_each);
  void *object = malloc(bytes);
  return object ? memset(object, 0, bytes) : NULL;
}
