/* SPDX-License-Identifier: MIT */
/* Calls each function of the malloc API, argv[1] times, in two threads, and checks the results. With PREFIX, calls
   those of an allocator whose names have this prefix; and malloc's, too, once each. */
#include "core/test/usual.h"

#ifdef PREFIX
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
#define OF(name) NAME(PREFIX, name)
#else
#define OF(name) name
#endif

void *OF(malloc)(size_t);
void OF(free)(void *);
void *OF(calloc)(size_t, size_t);
void *OF(realloc)(void *, size_t);
int OF(posix_memalign)(void **, size_t, size_t);
void *OF(memalign)(size_t, size_t);
void *OF(valloc)(size_t);
#ifndef WITHOUT_USABLE_SIZE
size_t OF(malloc_usable_size)(void *);
#endif
#ifdef FLAGS /* jemalloc's own */
void *OF(mallocx)(size_t, int);
void *OF(rallocx)(void *, size_t, int);
void OF(dallocx)(void *, int);
void OF(sdallocx)(void *, size_t, int);
size_t OF(sallocx)(const void *, int);
#endif

static void need(int condition, const char *what) {
  if (!condition) {
    fprintf(stderr, "wrong: %s\n", what);
    _Exit(9);
  }
}

static int is_zero(const char *object, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (object[i])
      return 0;
  return 1;
}

static void round_of_calls(int number) {
  size_t bytes = (size_t)(number * 37 % 5000) + 20;
  char *plain = OF(malloc)(bytes), *zero = OF(calloc)(3, bytes), *aligned = OF(memalign)(256, bytes);
  char *page = OF(valloc)(bytes);
  void *result = NULL;
  need(plain && zero && aligned && page, "memory");
  need(is_zero(zero, 3 * bytes), "zeroes");
  need((uintptr_t)aligned % 256 == 0 && (uintptr_t)page % 4096 == 0, "alignment");
  need(OF(posix_memalign)(&result, 64, bytes) == 0 && (uintptr_t)result % 64 == 0, "posix_memalign");
  memset(plain, 7, bytes);
  char *grown = OF(realloc)(plain, bytes * 3);
  need(grown && grown[0] == 7 && grown[bytes - 1] == 7, "realloc");
#ifndef WITHOUT_USABLE_SIZE
  need(OF(malloc_usable_size)(grown) >= bytes * 3, "usable size");
#endif
#ifdef FLAGS
  enum { ALIGNED_1024 = 10, ZERO = 64 };
  char *a = OF(mallocx)(bytes, 0), *b = OF(mallocx)(bytes, ALIGNED_1024), *c = OF(mallocx)(bytes, ZERO);
  need(a && b && c && (uintptr_t)b % 1024 == 0 && is_zero(c, bytes), "mallocx");
  a = OF(rallocx)(a, 2 * bytes, 0);
  need(OF(sallocx)(a, 0) >= 2 * bytes, "sallocx");
  OF(sdallocx)(a, 2 * bytes, 0);
  OF(sdallocx)(b, bytes, ALIGNED_1024);
  OF(dallocx)(c, 0);
#endif
  OF(free)(grown);
  OF(free)(zero);
  OF(free)(aligned);
  OF(free)(page);
  OF(free)(result);
  OF(free)(NULL);
}

static void *rounds(void *count) {
  for (int i = 0; i < *(int *)count; i++)
    round_of_calls(i);
  return NULL;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 1;
  pthread_t other;
  need(pthread_create(&other, NULL, rounds, &count) == 0, "a thread");
  rounds(&count);
  pthread_join(other, NULL);
  free(malloc(54321));
  puts("done");
  return 0;
}
