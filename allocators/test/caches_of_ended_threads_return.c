/* SPDX-License-Identifier: MIT */
/* Threads that come and go leave nothing behind: the contents of their caches are reused; and a thread's last
   destructors may still allocate and free. */
#include "allocators/common/allocator.h"
#include "core/test/usual.h"

/* FREE_BYTES_MORE: by how much the heap may grow, less than a hundredth of what the threads allocated. */
enum { THREADS = 300, OBJECTS = 50, FREE_BYTES_MORE = 64 << 10 };

static pthread_key_t late;

static void late_destructor(void *object) {
  free(object);
  free(malloc(100));
  static __thread int again;
  if (again++ < 2) /* again, after the allocator's own destructor has run */
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
  size_t used_bytes, free_bytes;
};

static void add(const void *address, size_t bytes, unsigned state, void *context) {
  struct held *held = context;
  (void)address;
  *(state == 0 ? &held->used_bytes : &held->free_bytes) += bytes;
}

static struct held after_threads(int count) {
  for (int number = 0; number < count; number++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0)
      exit(2);
    pthread_join(thread, NULL);
  }
  struct held held = {0};
  heaptape_heap_walk(add, &held);
  return held;
}

int main(void) {
  pthread_key_create(&late, late_destructor);
  struct held few = after_threads(5), many = after_threads(THREADS);
  if (many.used_bytes > few.used_bytes + 2000 || many.free_bytes > few.free_bytes + FREE_BYTES_MORE) {
    fprintf(stderr, "used %zu, then %zu bytes; free %zu, then %zu\n", few.used_bytes, many.used_bytes, few.free_bytes,
            many.free_bytes);
    return 1;
  }
  return 0;
}
