/* SPDX-License-Identifier: MIT */
/* Acquires objects at call sites that are to be placed (placed…) and at others, in threads and fork children; checks
   their contents. With an argument: prints whether two of a placed site, and one of each kind, lie near each other. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define CHECK(claim) ((claim) ? (void)0 : (fprintf(stderr, "line %d: %s\n", __LINE__, #claim), exit(1)))
/* All of one call site, which its callers tell apart. */
APART static void *own_alloc(size_t bytes) {
  void *p = malloc(bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed(size_t bytes) {
  void *p = own_alloc(bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *other(size_t bytes) {
  void *p = own_alloc(bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed_zeroed(size_t bytes) {
  void *p = calloc(3, bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed_aligned(size_t bytes) {
  void *p = NULL;
  CHECK(posix_memalign(&p, 256, bytes) == 0);
  return p;
}
APART static void *placed_resized(size_t bytes) {
  void *p = realloc(NULL, bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}

/* In the same block of a region. */
static int near_each_other(const void *one, const void *two) {
  return (uintptr_t)one >> 22 == (uintptr_t)two >> 22;
}

static void *work(void *unused) {
  void *objects[200];
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < 200; i++) {
      size_t bytes = (size_t)(i * 37 % 500 + 1);
      objects[i] = i % 3 ? placed(bytes) : i % 2 ? placed_zeroed(bytes) : other(bytes);
      if (i % 3 == 0 && i % 2)
        for (size_t at = 0; at < 3 * bytes; at++)
          CHECK(((char *)objects[i])[at] == 0);
      memset(objects[i], i, bytes);
    }
    for (int i = 0; i < 200; i++) {
      CHECK(((unsigned char *)objects[i])[0] == (unsigned char)i);
      if (i % 7 == 0)
        objects[i] = realloc(objects[i], (size_t)(i + 1) * 40);
      CHECK(((unsigned char *)objects[i])[0] == (unsigned char)i);
      free(objects[i]);
    }
  }
  return unused;
}

int main(int count, char **words) {
  void *first = placed(40), *second = placed(40), *third = other(40);
  if (count > 1)
    printf("%d %d\n", near_each_other(first, second), near_each_other(first, third));
  (void)words;
  errno = 77;
  for (int i = 0; i < 100000; i++)
    CHECK(placed(100) != NULL);
  CHECK(errno == 77);
  CHECK(malloc_usable_size(first) >= 40);
  CHECK((uintptr_t)placed_aligned(300) % 256 == 0);
  char *grown = placed_resized(10);
  strcpy(grown, "contents");
  for (size_t bytes = 10; bytes < 5000000; bytes *= 3) {
    grown = realloc(grown, bytes);
    CHECK(grown && strcmp(grown, "contents") == 0);
  }
  CHECK(realloc(grown, 0) == NULL);
  CHECK(placed((size_t)1 << 46) == NULL && errno == ENOMEM);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      work(NULL);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  free(first);
  free(second);
  free(third);
  puts("done");
  return 0;
}
