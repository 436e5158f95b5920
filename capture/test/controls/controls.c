/* SPDX-License-Identifier: MIT */
/* Makes control calls. asks: each of libc's, between two objects of 4242 and 4243 bytes. found: malloc_trim by a
   look-up in libc. own: those of the allocator that the program runs on, and which of them it sees. trim, plain: rounds
   over 20,000 blocks, of which each thousandth is kept, with or without malloc_trim(0) after each. */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void mi_collect(bool force) __attribute__((weak));
extern void mi_option_set(int option, long value) __attribute__((weak));
extern void MallocExtension_ReleaseFreeMemory(void) __attribute__((weak));

static void ask(void) {
  void *first = malloc(4242);
  mallopt(M_ARENA_MAX, 2);
  malloc_trim(4096);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  mallinfo();
  mallinfo2();
  malloc_stats();
  malloc_info(0, stdout);
  void *second = malloc(4243);
  free(first);
  free(second);
}

static void ask_found(void) {
  union {
    void *data;
    int (*code)(size_t);
  } found = {.data = dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc_trim")};
  found.code(7);
}

static void ask_own(void) {
  printf("%d %d %d\n", mi_collect != NULL, mi_option_set != NULL, MallocExtension_ReleaseFreeMemory != NULL);
  if (mi_collect)
    mi_collect(true);
  if (mi_option_set)
    mi_option_set(15, -1);
  if (MallocExtension_ReleaseFreeMemory)
    MallocExtension_ReleaseFreeMemory();
}

static void keep(bool trim) {
  enum { BLOCKS = 20000, ROUNDS = 5 };
  static char *block[BLOCKS];
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      if (i % 1000 == 0)
        free(block[i]);
      block[i] = malloc(500);
      memset(block[i], 1, 500);
    }
    for (int i = 0; i < BLOCKS; i++)
      if (i % 1000)
        free(block[i]);
    if (trim)
      malloc_trim(0);
  }
}

int main(int count, char **arguments) {
  const char *what = count > 1 ? arguments[1] : "";
  if (strcmp(what, "asks") == 0)
    ask();
  else if (strcmp(what, "found") == 0)
    ask_found();
  else if (strcmp(what, "own") == 0)
    ask_own();
  else
    keep(strcmp(what, "trim") == 0);
  return 0;
}
