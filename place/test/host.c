/* SPDX-License-Identifier: MIT */
/* Acquires objects at call sites that are to be placed (placed…) and at others, in threads and fork children; checks
   their contents. With an argument: prints whether two of a placed site, and one of each kind, lie near each other, and
   how many of the other functions' placed objects. */
#include "core/test/usual.h"

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

APART static void *placed_array(size_t count, size_t bytes) {
  void *p = reallocarray(NULL, count, bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed_of_c11(size_t align, size_t bytes) {
  void *p = aligned_alloc(align, bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed_as_before(size_t align, size_t bytes) {
  void *p = memalign(align, bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}
APART static void *placed_in_a_page(size_t bytes) {
  void *p = valloc(bytes);
  __asm__ volatile("" : "+r"(p));
  return p;
}

/* Of newer C libraries, and of ours. */
extern void free_sized(void *object, size_t bytes) __attribute__((weak));
extern void free_aligned_sized(void *object, size_t align, size_t bytes) __attribute__((weak));

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

/* An object of every other kind of site; returns how many lie near that one. */
static int kinds_near(const void *one) {
  enum { BYTES = 600, PAGE = 4096 };
  char *array = placed_array(3, BYTES / 3), *aligned = placed_of_c11(512, BYTES), *before = placed_as_before(64, BYTES),
       *page = placed_in_a_page(BYTES);
  char *all[] = {array, aligned, before, page};
  int near = 0;
  CHECK((uintptr_t)aligned % 512 == 0 && (uintptr_t)before % 64 == 0 && (uintptr_t)page % PAGE == 0);
  for (int i = 0; i < 4; i++) {
    CHECK(malloc_usable_size(all[i]) >= BYTES);
    memset(all[i], i + 1, BYTES);
    near += near_each_other(one, all[i]);
  }
  CHECK(reallocarray(array, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
  array = reallocarray(array, 5, BYTES);
  for (int i = 0; i < BYTES; i++)
    CHECK(array[i] == 1 && aligned[i] == 2 && before[i] == 3 && page[i] == 4);
  free(array);
  free(before);
  for (int i = 0; i < 5000; i++) { /* more than a block's, if not released */
    if (free_sized && free_aligned_sized) {
      free_sized(page, BYTES);
      free_aligned_sized(aligned, 512, BYTES);
    } else {
      free(page);
      free(aligned);
    }
    page = placed_in_a_page(BYTES);
    aligned = placed_of_c11(512, BYTES);
  }
  near += near_each_other(one, page) + near_each_other(one, aligned);
  return near;
}

int main(int count, char **words) {
  void *first = placed(40), *second = placed(40), *third = other(40);
  if (count > 1)
    printf("%d %d %d\n", near_each_other(first, second), near_each_other(first, third), kinds_near(first));
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
