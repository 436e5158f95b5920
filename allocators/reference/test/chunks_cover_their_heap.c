/* SPDX-License-Identifier: MIT */
/* The heap walk leaves no gap: a chunk begins where the previous one ends, or in another heap. And threads that come
   and go reuse the arenas of ended threads. */
#include "allocators/common/allocator.h"
#include "allocators/reference/take.h"
#include "core/test/usual.h"

enum { OBJECTS = 500, CALLS = 20000, THREADS = 50, ANOTHER_HEAP_BYTES = 1 << 20 };

static void *churn(void *argument) {
  void *objects[OBJECTS] = {NULL};
  unsigned seed = (unsigned)(size_t)argument;
  for (int call = 0; call < CALLS; call++) {
    unsigned index = rand_r(&seed) % OBJECTS;
    free(objects[index]);
    objects[index] = malloc(rand_r(&seed) % (call % 50 == 0 ? 100000 : 900));
  }
  for (int index = 0; index < OBJECTS; index += 2) /* the others stay */
    free(objects[index]);
  return NULL;
}

static void see(const void *address, size_t bytes, unsigned state, void *context) {
  static const char *expected;
  int *gaps = context;
  const char *block = address;
  (void)state;
  if (expected && block > expected && block < expected + ANOTHER_HEAP_BYTES)
    ++*gaps;
  expected = block + bytes;
}

int main(void) {
  churn((void *)1);
  for (size_t number = 0; number < THREADS; number++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, churn, (void *)number) != 0)
      return 2;
    pthread_join(thread, NULL);
  }
  int gaps = 0, arenas = 0;
  heaptape_heap_walk(see, &gaps);
  for (struct arena *arena = &main_arena; arena; arena = arena_next(arena))
    arenas++;
  if (gaps || arenas != 2)
    fprintf(stderr, "%d gaps, %d arenas\n", gaps, arenas);
  return gaps || arenas != 2;
}
