/* SPDX-License-Identifier: MIT */
/* A thread that allocates nothing has counts, too; they outlive it, but its entry in the list of threads does not. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"
#include "core/test/usual.h"

enum { THREADS = 50, OBJECTS = 20, OBJECT_BYTES = 200, HANGS_AFTER_S = 60 };

static void *free_all(void *objects) {
  for (int index = 0; index < OBJECTS; index++)
    free(((void **)objects)[index]);
  return NULL;
}

/* In a new thread, whose stack the next one gets. */
static void free_in_thread(void) {
  void *objects[OBJECTS];
  for (int index = 0; index < OBJECTS; index++)
    objects[index] = malloc(OBJECT_BYTES);
  pthread_t thread;
  if (pthread_create(&thread, NULL, free_all, objects) != 0)
    exit(2);
  pthread_join(thread, NULL);
}

static int check(void) {
  alarm(HANGS_AFTER_S);
  uint64_t before = counted("atomics");
  for (int number = 0; number < THREADS; number++)
    free_in_thread();
  uint64_t after = counted("atomics");
  if (after - before >= THREADS)
    return 0;
  fprintf(stderr, "%d threads made %lu atomic operations\n", THREADS, (after - before));
  return 1;
}

int main(int argument_count, char **arguments) {
  if (argument_count > 1)
    return check();
  /* A thread without a cache has nothing but its counts. */
  const char *cacheless = strstr(allocator_variable, "REFERENCE")  ? "single_thread=0:stats=1:tcache=0"
                          : strstr(allocator_variable, "MAGAZINE") ? "single_thread=0:stats=1:magazines=0"
                                                                   : "single_thread=0:stats=1";
  return run_under(arguments, "single_thread=0:stats=1", "check") | run_under(arguments, cacheless, "check");
}
