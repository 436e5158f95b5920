/* SPDX-License-Identifier: MIT */
/* Programs whose memory is held for a known reason, by a function whose name says so: test programs for blame.

   planted_memory MODE [OBJECTS]
     leak           one object of each request stays, and nothing ever releases it: live bytes grow
     retention      a cache is filled and dropped; one object behind it stays: live bytes fall, and OS pages are empty
     fragmentation  one of each 16 objects of one size stays: each OS page keeps a survivor, and is sparsely filled
     well           objects come and go, and those that stay fill their OS pages

   Each object is touched completely. Marks: "fill" before the objects are acquired, "drop" before they are released. */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

enum { OBJECT_BYTES = 256, OBJECTS_MAX = 64 << 10, SURVIVOR_EVERY = 16 };

/* A separate frame in every stack. The bodies of sites differ, because a compiler merges identical functions. */
#define SITE __attribute__((noinline))

static size_t wanted = OBJECTS_MAX;
static void *objects[OBJECTS_MAX];
static void *volatile kept;

static void *filled(void *object, int value, size_t bytes) {
  if (!object)
    abort();
  return memset(object, value, bytes);
}

SITE static void *make_temporary(size_t bytes) {
  return filled(malloc(bytes), 1, bytes);
}

SITE static void *make_survivor(size_t bytes) {
  return filled(malloc(bytes), 2, bytes);
}

static void leak(void) {
  for (size_t request = 0; request < wanted; request++) {
    void *temporary = make_temporary(4 * OBJECT_BYTES);
    kept = make_survivor(OBJECT_BYTES);
    free(temporary);
  }
}

static void fill(size_t survivor_every) {
  heaptape_mark("fill");
  for (size_t index = 0; index < wanted; index++)
    objects[index] =
        index % survivor_every == survivor_every - 1 ? make_survivor(OBJECT_BYTES) : make_temporary(OBJECT_BYTES);
}

static void drop(size_t survivor_every) {
  heaptape_mark("drop");
  for (size_t index = 0; index < wanted; index++)
    if (index % survivor_every != survivor_every - 1)
      free(objects[index]);
}

/* Allocators that give memory back late do so while the program continues. */
static void go_on(void) {
  for (size_t request = 0; request < wanted; request++)
    free(make_temporary(OBJECT_BYTES));
}

int main(int count, char **arguments) {
  if (count > 2)
    wanted = strtoull(arguments[2], NULL, 10);
  const char *mode = count > 1 && wanted <= OBJECTS_MAX ? arguments[1] : "";
  if (strcmp(mode, "leak") == 0) {
    leak();
  } else if (strcmp(mode, "retention") == 0) {
    fill(wanted);
    drop(wanted);
    go_on();
  } else if (strcmp(mode, "fragmentation") == 0) {
    fill(SURVIVOR_EVERY);
    drop(SURVIVOR_EVERY);
    go_on();
  } else if (strcmp(mode, "well") == 0) {
    fill(1);
    go_on();
  } else {
    fprintf(stderr, "usage: planted_memory leak|retention|fragmentation|well [OBJECTS, at most %d]\n", OBJECTS_MAX);
    return 2;
  }
  return 0;
}
