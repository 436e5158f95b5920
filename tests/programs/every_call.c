/* SPDX-License-Identifier: MIT */
/* A program whose calls are the same in every run, for recorders to agree on: every_call [THREADS [STEPS]].

   Each thread, one after the other unless there are several, runs STEPS random steps on its own objects. All steps are
   between malloc(1000003) and malloc(1000033), so that calls that a recorder adds before and after can be recognised.
 */
#include "core/test/usual.h"

enum { OBJECTS = 64, MAX_THREADS = 64, FIRST_SIZE = 1000003, LAST_SIZE = 1000033 };

static unsigned steps = 2000;

static void step(unsigned *seed, void **object) {
  size_t size = (size_t)rand_r(seed) % 1000;
  unsigned kind = (unsigned)rand_r(seed) % 12;
  if (kind > 3)
    free(*object);
  switch (kind) {
  case 0:
  case 1:
    *object = realloc(*object, size + 1);
    break;
  case 2:
    *object = reallocarray(*object, 3, size + 1);
    break;
  case 3:
    *object = realloc(*object, 5 * size + 1);
    break;
  case 4:
    *object = calloc(3, size);
    break;
  case 5:
    *object = memalign(64, size);
    break;
  case 6:
    if (posix_memalign(object, 128, size) != 0)
      abort();
    break;
  case 7:
    *object = aligned_alloc(32, 32 * size);
    break;
  case 8:
    *object = valloc(size);
    break;
  default:
    *object = malloc(size);
  }
}

static void *run(void *argument) {
  unsigned seed = (unsigned)(uintptr_t)argument;
  void *objects[OBJECTS] = {NULL};
  for (unsigned i = 0; i < steps; i++)
    step(&seed, &objects[(unsigned)rand_r(&seed) % OBJECTS]);
  for (int i = 0; i < OBJECTS; i++)
    free(objects[i]);
  return NULL;
}

static void corner_cases(void) {
  volatile size_t huge = SIZE_MAX / 4;
  void *volatile object = malloc(0);
  free(object);
  object = malloc(huge);
  object = malloc(40);
  void *volatile failed = realloc(object, huge);
  (void)failed;
  object = realloc(object, 0); /* frees */
  object = calloc(0, 5);
  free(object);
}

int main(int argc, char **argv) {
  unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
  pthread_t ids[MAX_THREADS];
  steps = argc > 2 ? (unsigned)atoi(argv[2]) : steps;
  void *volatile first = malloc(FIRST_SIZE);
  run((void *)99);
  corner_cases();
  for (unsigned i = 0; i < threads && i < MAX_THREADS; i++)
    if (pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)(i + 1)) != 0)
      abort();
  for (unsigned i = 0; i < threads && i < MAX_THREADS; i++)
    pthread_join(ids[i], NULL);
  void *volatile last = malloc(LAST_SIZE);
  free(last);
  free(first);
  return 0;
}
