/* SPDX-License-Identifier: MIT */
/* The host's instructions for each path through a hook, to be counted by callgrind:
   tests/bench/recording/host_instructions.py runs it, bare and recorded, and reads the counts. Each loop is counted in
   batches of FEW and of MANY rounds, dumped as "loop:rounds". */
#include "capture/bench/loops.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <valgrind/callgrind.h>

enum { FEW = 16, MANY = 48, BATCHES = 24, LONG = 16384 };

static void *volatile held[MANY];
static sem_t asked, done;
static int rounds_asked;
static void (*ask)(int rounds);

/* Each object has its own tag entry. */
static void make_objects(int rounds) {
  for (int i = 0; i < rounds; i++)
    held[i] = malloc(600);
}
static void release_objects(int rounds) {
  for (int i = 0; i < rounds; i++)
    free(held[i]);
}

static void *other_thread(void *unused) {
  for (;;) {
    sem_wait(&asked);
    ask(rounds_asked);
    sem_post(&done);
  }
  return unused;
}
static void by_other_thread(void (*what)(int rounds), int rounds) {
  ask = what;
  rounds_asked = rounds;
  sem_post(&asked);
  sem_wait(&done);
}
static void make_remotely(int rounds) {
  by_other_thread(make_objects, rounds);
}
/* The other thread is the last that touched the objects' places. */
static void make_and_release_remotely(int rounds) {
  make_objects(rounds);
  by_other_thread(release_objects, rounds);
}

static void realloc_moved(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = realloc(malloc(SIZE), 200);
    free(object);
  }
}
static void posix_memalign_free(int rounds) {
  for (int i = 0; i < rounds; i++) {
    void *aligned;
    object = posix_memalign(&aligned, 64, 64) ? NULL : aligned;
    free(object);
  }
}
static void usable_size(int rounds) {
  for (int i = 0; i < rounds; i++)
    object = (void *)malloc_usable_size(kept);
}
static void free_null(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = NULL;
    free(object);
  }
}
static void large(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = malloc(20000);
    free(object);
  }
}

static void *one_event(void *unused) {
  CALLGRIND_TOGGLE_COLLECT;
  object = malloc(SIZE);
  CALLGRIND_TOGGLE_COLLECT;
  return unused;
}
static void first_event(int rounds) {
  for (int i = 0; i < rounds; i++) {
    pthread_t thread;
    CALLGRIND_TOGGLE_COLLECT; /* only the thread's own instructions count */
    pthread_create(&thread, NULL, one_event, NULL);
    pthread_join(thread, NULL);
    free(object);
    CALLGRIND_TOGGLE_COLLECT;
  }
}

static void none(int rounds) {
  (void)rounds;
}

static const struct loop {
  const char *name;
  void (*before)(int rounds), (*counted)(int rounds), (*after)(int rounds);
} loops[] = {
    {"malloc, free", none, malloc_free, none},
    {"calloc, free", none, calloc_free, none},
    {"realloc in place", none, realloc_in_place, none},
    {"malloc, realloc moved, free", none, realloc_moved, none},
    {"aligned_alloc, free", none, memalign_free, none},
    {"posix_memalign, free", none, posix_memalign_free, none},
    {"malloc_usable_size", none, usable_size, none},
    {"new, delete", none, new_delete, none},
    {"new, sized delete", none, new_delete_sized, none},
    {"free of NULL", none, free_null, none},
    {"malloc and free of 20,000 bytes", none, large, none},
    {"malloc, at a new place", none, make_objects, none}, /* first loop of this size, so that no object is reused */
    {"free, local", make_objects, release_objects, none},
    {"free, remote", make_remotely, release_objects, none},
    {"malloc, at another thread's place", make_and_release_remotely, make_objects, release_objects},
    {"malloc, a thread's first", none, first_event, none},
};

static void count(const struct loop *loop, int rounds) {
  char name[128];
  snprintf(name, sizeof name, "%s:%d", loop->name, rounds);
  loop->before(rounds);
  malloc_free(1); /* where the tick has advanced, this takes the stamp */
  CALLGRIND_TOGGLE_COLLECT;
  loop->counted(rounds);
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name);
  loop->after(rounds);
}

int main(void) {
  pthread_t thread;
  sem_init(&asked, 0, 0);
  sem_init(&done, 0, 0);
  pthread_create(&thread, NULL, other_thread, NULL);
  kept = malloc(SIZE);
  count(&(struct loop){"malloc, free; a long run", none, malloc_free, none}, LONG);
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    for (int batch = 0; batch < BATCHES; batch++)
      count(&loops[i], batch % 2 ? MANY : FEW);
  }
  return 0;
}
