/* SPDX-License-Identifier: MIT */
/* A thread fills several heaps of 64 MiB, empties them from either end, and does so again: free memory is reused,
   completely free heaps are given back. */
#include "allocators/common/entry.h"
#include "allocators/reference/take.h"
#include "core/test/usual.h"

enum { OBJECTS = 15000, OBJECT_BYTES = 11000 }; /* 165 MB: three heaps */

static char *objects[OBJECTS];
static size_t most_bytes, least_bytes;

static void *fill_and_empty(void *unused) {
  (void)unused;
  for (int round = 0; round < 3; round++) {
    for (int index = 0; index < OBJECTS; index++) {
      objects[index] = allocator_malloc(OBJECT_BYTES);
      memcpy(objects[index], &index, sizeof index);
    }
    struct arena *arena = arena_lock_mine();
    if (most_bytes < arena_system_bytes(arena))
      most_bytes = arena_system_bytes(arena);
    arena_unlock(arena);
    for (int step = 0; step < OBJECTS; step++) {
      int index = round % 2 ? step : OBJECTS - 1 - step;
      if (memcmp(objects[index], &index, sizeof index) != 0)
        exit(3);
      allocator_free(objects[index]);
    }
    arena = arena_lock_mine();
    if (least_bytes < arena_system_bytes(arena))
      least_bytes = arena_system_bytes(arena);
    arena_unlock(arena);
  }
  return NULL;
}

int main(void) {
  free(malloc(1)); /* the main arena is this thread's */
  pthread_t thread;
  if (pthread_create(&thread, NULL, fill_and_empty, NULL) != 0)
    return 2;
  pthread_join(thread, NULL);
  size_t whole = (size_t)OBJECTS * OBJECT_BYTES;
  if (most_bytes < whole || most_bytes > whole + HEAP_BYTES || least_bytes > HEAP_BYTES) {
    fprintf(stderr, "%zu bytes of the system when full, %zu when empty\n", most_bytes, least_bytes);
    return 1;
  }
  return 0;
}
