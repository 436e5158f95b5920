/* SPDX-License-Identifier: MIT */
/* A program whose accesses to its objects are known: test_accesses.py has them. Usage: planted MODE [NUMBER] */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

enum { FIRST = 1088, SECOND = 1104, THIRD = 1120, MANY = 8192, THREADS = 24 };

static void touch(volatile char *object, size_t offset) {
  object[offset] = 1;
}

/* Reads 16 bytes at once, as a vector's strlen does. */
static void read_vector(const char *object, size_t offset) {
  __asm__ volatile("movups (%0), %%xmm0" ::"r"(object + offset) : "xmm0");
}

static void objects(void) {
  char *first = malloc(FIRST), *second = malloc(SECOND);
  touch(first, 0);
  touch(second, 0);
  touch(first, 40);
  touch(first, 1087);
  read_vector(first, 1080); /* past its end: granules 67 and 68 */
  touch(first, 5);
  char *third = realloc(first, THIRD); /* the allocator makes its copy */
  touch(third, 16);
  free(second);
  touch(third, 32);
  free(third);
}

/* Only the allocator touches these objects. */
static void untouched(void) {
  void *all[500];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 500; i++)
      all[i] = calloc(1, 24 + (size_t)i % 7 * 16);
    for (int i = 0; i < 500; i += 2)
      all[i] = realloc(all[i], 300);
    for (int i = 0; i < 500; i++)
      free(all[i]);
  }
}

static void cycles(void) {
  volatile char *many = malloc(MANY);
  for (int round = 0; round < 2; round++)
    for (size_t at = 0; at < MANY; at += 16)
      many[at] = 1;
  free((void *)many);
}

/* An allocator that hands out the last released object first gives all objects the same address. */
static void reused(void) {
  for (int round = 0; round < 100; round++) {
    volatile char *one = malloc(FIRST);
    one[8] = 1;
    free((void *)one);
  }
}

/* Not inlined: the instructions of its loop are known. */
static __attribute__((noinline)) void counted(long times) {
  volatile char *one = malloc(FIRST);
  for (long i = 0; i < times; i++)
    one[8] = 1;
  free((void *)one);
}

static void *thread(void *number) {
  for (int i = 0; i < 40; i++) {
    char *object = malloc(FIRST + 16 * (size_t)(uintptr_t)number);
    touch(object, 16 * (size_t)i);
    if (i % 3 == 0)
      object = realloc(object, SECOND);
    free(object);
  }
  return NULL;
}

static void threads(void) {
  pthread_t running[THREADS];
  for (int i = 0; i < THREADS; i++) {
    pthread_create(&running[i], NULL, thread, (void *)(uintptr_t)i);
    if (i % 4 == 3)
      for (int j = i - 3; j <= i; j++)
        pthread_join(running[j], NULL);
  }
}

static volatile int handled;

static void handler(int number) {
  (void)number;
  char *object = malloc(SECOND);
  touch(object, 0);
  object = realloc(object, THIRD);
  free(object);
  handled++;
}

/* Under Valgrind about 1,400 of these pairs of calls are made between two signals: a trace of 90,000 events. */
static void signals(void) {
  struct itimerval often = {{0, 500}, {0, 500}};
  signal(SIGALRM, handler);
  setitimer(ITIMER_REAL, &often, NULL);
  while (handled < 30) {
    char *object = malloc(FIRST);
    touch(object, 48);
    free(object);
  }
  setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}

static void forks(void) {
  char *before = malloc(FIRST);
  touch(before, 0);
  pid_t child = fork();
  char *after = malloc(child ? SECOND : THIRD);
  touch(before, 64);
  touch(after, child ? 16 : 32);
  free(after);
  if (child == 0)
    _exit(0);
  waitpid(child, NULL, 0);
}

static void pauses(void) {
  char *first = malloc(FIRST);
  touch(first, 16);
  heaptape_pause();
  free(malloc(10)); /* the pause is noticed at a call */
  touch(first, 32);
  for (int i = 0; i < 20; i++)
    free(malloc(THIRD));
  heaptape_resume();
  char *second = malloc(SECOND);
  touch(first, 64);
  touch(second, 80);
  free(second);
}

/* For each byte that it reads: an access to an existing object, an access to a new one, and many calls; then writes a
   byte. */
static void asked(void) {
  char *first = malloc(FIRST), byte;
  while (read(0, &byte, 1) == 1) {
    char *third = malloc(THIRD);
    touch(first, 16);
    touch(third, 32);
    free(third);
    for (int i = 0; i < 3000; i++) {
      char *second = malloc(SECOND);
      for (size_t at = 0; at < SECOND; at += 16)
        touch(second, at);
      free(second);
    }
    if (write(1, &byte, 1) != 1)
      return;
  }
  _exit(9);
}

/* Objects are acquired and released, and read and written at random places and in random sizes. */
static void mixed(void) {
  enum { OBJECTS = 64, LARGEST = 600, STEPS = 12000 };
  static char *objects[OBJECTS];
  static unsigned sizes[OBJECTS];
  unsigned random = 1;
  for (int step = 0; step < STEPS; step++) {
    random = random * 1664525 + 1013904223;
    unsigned which = random >> 26, what = random >> 22 & 15, place = random >> 8 & 4095;
    if (!objects[which] || what == 0) {
      sizes[which] = 16 + place % LARGEST;
      objects[which] = realloc(objects[which], sizes[which]);
    } else if (what == 1) {
      free(objects[which]);
      objects[which] = NULL;
    } else if (what < 6) {
      read_vector(objects[which], place % sizes[which]);
    } else if (what == 6) {
      memset(objects[which], 1, sizes[which]);
    } else {
      touch(objects[which], place % sizes[which]);
    }
  }
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "objects") == 0)
    objects();
  else if (strcmp(mode, "untouched") == 0)
    untouched();
  else if (strcmp(mode, "cycles") == 0)
    cycles();
  else if (strcmp(mode, "reused") == 0)
    reused();
  else if (strcmp(mode, "counted") == 0)
    counted(atol(argv[2]));
  else if (strcmp(mode, "threads") == 0)
    threads();
  else if (strcmp(mode, "signals") == 0)
    signals();
  else if (strcmp(mode, "forks") == 0)
    forks();
  else if (strcmp(mode, "pauses") == 0)
    pauses();
  else if (strcmp(mode, "mixed") == 0)
    mixed();
  else if (strcmp(mode, "asked") == 0)
    asked();
  else if (strcmp(mode, "exec") == 0)
    execl(argv[0], argv[0], "objects", (char *)NULL);
  else if (strcmp(mode, "killed") == 0) {
    cycles();
    for (int i = 0; i < 40000; i++)
      free(malloc(FIRST));
    if (fork() == 0) { /* Valgrind would see the process's own SIGKILL beforehand */
      kill(getppid(), SIGKILL);
      _exit(0);
    }
    for (;;)
      free(malloc(SECOND));
  }
  return 0;
}
