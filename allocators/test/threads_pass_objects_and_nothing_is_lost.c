/* SPDX-License-Identifier: MIT */
/* Threads acquire, pass on, resize and release objects, against the model; threads come and go. Tunables come from the
   environment. Usage: [THREADS [CALLS_PER_THREAD [GENERATIONS]]] */
#include "allocators/common/entry.h"
#include "allocators/test/model.h"
#include "core/test/usual.h"

enum { OWN = 200, SHARED = 64, THREADS_MAX = 64 };

static long calls_per_thread = 30000;

/* Hand-over: an object that is put here belongs to no thread until one exchanges it out. */
static struct model_object *_Atomic shared[SHARED];

/* The descriptor is also on the heap under test, so there are many remote frees of small objects. */
static void pass_on(struct model *model, struct model_object *object) {
  struct model_object *given = allocator_malloc(sizeof *given);
  if (!given)
    model_fail("no memory");
  *given = *object;
  object->bytes = NULL;
  struct model_object *taken = atomic_exchange(&shared[model_random(model) % SHARED], given);
  if (!taken)
    return;
  model_release(model, taken);
  allocator_free(taken);
}

static void *run(void *argument) {
  struct model model = {.random = (uintptr_t)argument * 0x9E3779B97F4A7C15u | 1, .size_limit_bytes = 3000};
  struct model_object *own = allocator_calloc(OWN, sizeof *own);
  for (long call = 0; call < calls_per_thread; call++) {
    struct model_object *object = &own[model_random(&model) % OWN];
    model.size_limit_bytes = call % 1000 == 999 ? 300000 : 3000;
    if (!object->bytes)
      *object = model_acquire(&model);
    else if (model_random(&model) % 3 == 0)
      pass_on(&model, object);
    else if (model_random(&model) % 4 == 0 && object->size_bytes < 50000)
      model_resize(&model, object);
    else
      model_release(&model, object);
  }
  for (int index = 0; index < OWN; index++)
    if (own[index].bytes)
      model_release(&model, &own[index]);
  allocator_free(own);
  return NULL;
}

int main(int argument_count, char **arguments) {
  int threads = argument_count > 1 ? atoi(arguments[1]) : 4;
  calls_per_thread = argument_count > 2 ? atol(arguments[2]) : 30000;
  int generations = argument_count > 3 ? atoi(arguments[3]) : 3;
  pthread_t handles[THREADS_MAX];
  if (threads < 1 || threads > THREADS_MAX)
    model_fail("1 to %d threads", THREADS_MAX);
  for (int generation = 0; generation < generations; generation++) {
    for (int index = 0; index < threads; index++)
      if (pthread_create(&handles[index], NULL, run, (void *)(uintptr_t)(generation * threads + index + 1)) != 0)
        model_fail("can't start a thread");
    for (int index = 0; index < threads; index++)
      pthread_join(handles[index], NULL);
  }
  struct model model = {.random = 1, .size_limit_bytes = 1000};
  for (int index = 0; index < SHARED; index++) {
    struct model_object *left = atomic_exchange(&shared[index], NULL);
    if (!left)
      continue;
    model_release(&model, left);
    allocator_free(left);
  }
  return 0;
}
