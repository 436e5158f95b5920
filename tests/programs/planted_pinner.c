/* SPDX-License-Identifier: MIT */
/* One site of fifty holds memory that is nearly empty: a test program for the blame pass.

   planted_pinner PINNERS

   Phase "dense": 49 functions acquire 40 objects of 1,000 bytes for each pinner, which stay: most of the live bytes, in
   full OS pages. Phase "pin": a thread acquires objects of 248 bytes, 15 of each 16 by the 49 functions, which do
   not stay, and one by pin_here, which does: with 256 bytes for each, as all usual allocators take, there is one in
   each 4 KiB. Phase "drop": the 15 of 16 are released; then 3 objects for every 4 pinners come and go. With 1,000
   pinners the ages of all of them are then from 16,384 to 32,767 ops.

   So the objects of pin_here, which are also those of that thread, size, phase and age, hold PINNERS OS pages alone,
   and have less than 1/150 of the live bytes. */
#include "capture/wire/heaptape.h"
#include "core/test/usual.h"

enum { OTHERS = 49, DENSE_BYTES = 1000, DENSE_PER_PINNER = 40, PINNED_BYTES = 248, EVERY = 16 };

typedef void *site(size_t bytes);

static size_t pinners;
static void **dense, **temporary, **pinned;

/* The value makes each function different: a compiler merges identical functions. */
static void *filled(void *object, int value, size_t bytes) {
  if (!object)
    abort();
  return memset(object, value, bytes);
}

#define SEVEN(EACH, a, b, c, d, e, f, g)                                                                               \
  EACH(a)                                                                                                              \
  EACH(b)                                                                                                              \
  EACH(c)                                                                                                              \
  EACH(d)                                                                                                              \
  EACH(e)                                                                                                              \
  EACH(f)                                                                                                              \
  EACH(g)
#define ALL(EACH)                                                                                                      \
  SEVEN(EACH, 10, 11, 12, 13, 14, 15, 16)                                                                              \
  SEVEN(EACH, 17, 18, 19, 20, 21, 22, 23)                                                                              \
  SEVEN(EACH, 24, 25, 26, 27, 28, 29, 30)                                                                              \
  SEVEN(EACH, 31, 32, 33, 34, 35, 36, 37)                                                                              \
  SEVEN(EACH, 38, 39, 40, 41, 42, 43, 44)                                                                              \
  SEVEN(EACH, 45, 46, 47, 48, 49, 50, 51)                                                                              \
  SEVEN(EACH, 52, 53, 54, 55, 56, 57, 58)

#define SITE(number)                                                                                                   \
  __attribute__((noinline)) static void *site_##number(size_t bytes) {                                                 \
    return filled(malloc(bytes), number, bytes);                                                                       \
  }
ALL(SITE)

#define NAME(number) site_##number,
static site *const others[OTHERS] = {ALL(NAME)};

__attribute__((noinline)) static void *pin_here(size_t bytes) {
  return filled(malloc(bytes), 99, bytes);
}

static void *pin(void *unused) {
  size_t next = 0;
  for (size_t pinner = 0; pinner < pinners; pinner++) {
    for (int index = 1; index < EVERY; index++, next++)
      temporary[next] = others[next % OTHERS](PINNED_BYTES);
    pinned[pinner] = pin_here(PINNED_BYTES);
  }
  heaptape_mark("drop");
  for (size_t index = 0; index < next; index++)
    free(temporary[index]);
  return unused;
}

int main(int count, char **arguments) {
  pthread_t thread;
  pinners = count == 2 ? strtoull(arguments[1], NULL, 10) : 0;
  if (pinners == 0) {
    fprintf(stderr, "usage: planted_pinner PINNERS\n");
    return 2;
  }
  dense = calloc(pinners * DENSE_PER_PINNER, sizeof *dense);
  temporary = calloc(pinners * EVERY, sizeof *temporary);
  pinned = calloc(pinners, sizeof *pinned);
  if (!dense || !temporary || !pinned)
    return 1;
  heaptape_mark("dense");
  for (size_t index = 0; index < pinners * DENSE_PER_PINNER; index++)
    dense[index] = others[index % OTHERS](DENSE_BYTES);
  heaptape_mark("pin");
  if (pthread_create(&thread, NULL, pin, NULL) != 0 || pthread_join(thread, NULL) != 0)
    return 1;
  for (size_t index = 0; index < pinners * 3 / 4; index++)
    free(others[0](PINNED_BYTES));
  return 0;
}
