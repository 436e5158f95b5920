/* SPDX-License-Identifier: MIT */
/* The loops that are counted both of a preloaded host (host_paths.c) and of an allocator in the executable
   (linked_paths.c): each a kind of pair of calls, `rounds` times. */
#pragma once

#include <stdlib.h>

void *operator_new(size_t size) __asm__("_Znwm");
void operator_delete(void *object) __asm__("_ZdlPv");
void operator_delete_sized(void *object, size_t size) __asm__("_ZdlPvm");

enum { SIZE = 40 };

static void *volatile object, *volatile kept;

static void malloc_free(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = malloc(SIZE);
    free(object);
  }
}
static void calloc_free(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = calloc(1, SIZE);
    free(object);
  }
}
static void realloc_in_place(int rounds) {
  for (int i = 0; i < rounds; i++)
    kept = realloc(kept, SIZE - (size_t)i % 2);
}
static void memalign_free(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = aligned_alloc(64, 64);
    free(object);
  }
}
static void new_delete(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = operator_new(SIZE);
    operator_delete(object);
  }
}
static void new_delete_sized(int rounds) {
  for (int i = 0; i < rounds; i++) {
    object = operator_new(SIZE);
    operator_delete_sized(object, SIZE);
  }
}
