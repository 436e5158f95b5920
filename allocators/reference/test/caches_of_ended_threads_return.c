/* Threads that come and go leave nothing behind: their caches are given back and their arenas used again; and a
   thread's last destructors may still allocate and free. */
#include "allocators/reference/reference.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2000, OBJECTS = 50 };

static pthread_key_t late;

static void late_destructor(void *object) {
  free(object);
  free(malloc(100));
  static __thread int again;
  if (again++ < 2) /* once more, after the allocator's own destructor has run */
    pthread_setspecific(late, malloc(50));
}

static void *run(void *unused) {
  (void)unused;
  void *objects[OBJECTS];
  pthread_setspecific(late, malloc(30));
  for (int index = 0; index < OBJECTS; index++)
    objects[index] = malloc((size_t)index * 20);
  for (int index = 0; index < OBJECTS; index++)
    free(objects[index]);
  return NULL;
}

struct held {
  size_t used_bytes, cached_bytes;
  unsigned arenas;
};

static void add(const struct reference_chunk *chunk, void *context) {
  struct held *held = context;
  if (chunk->state == REFERENCE_USED)
    held->used_bytes += chunk->size_bytes;
  if (chunk->state == REFERENCE_TCACHE)
    held->cached_bytes += chunk->size_bytes;
  if (chunk->arena + 1 > held->arenas)
    held->arenas = chunk->arena + 1;
}

static struct held after_threads(int count) {
  for (int number = 0; number < count; number++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
      exit(2);
    pthread_join(thread, NULL);
  }
  struct held held = {0};
  reference_walk(add, &held);
  return held;
}

int main(void) {
  pthread_key_create(&late, late_destructor);
  struct held few = after_threads(5), many = after_threads(THREADS);
  if (many.used_bytes > few.used_bytes + 2000 || many.cached_bytes > few.cached_bytes + 2000 || many.arenas > 2) {
    fprintf(stderr, "used %zu, then %zu bytes; in caches %zu, then %zu; %u arenas\n", few.used_bytes, many.used_bytes,
            few.cached_bytes, many.cached_bytes, many.arenas);
    return 1;
  }
  return 0;
}
