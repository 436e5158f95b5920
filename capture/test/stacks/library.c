/* SPDX-License-Identifier: MIT */
/* A library that the program calls and that calls it back; built under several names, so that one replaces another when
   it is closed. */
#include <stddef.h>

#ifndef NAME
#define NAME library_function
#endif

__attribute__((noinline)) void NAME(void (*back)(size_t), size_t bytes);
void NAME(void (*back)(size_t), size_t bytes) {
  back(bytes);
  __asm__ volatile("" ::: "memory");
}

void library_call(void (*back)(size_t), size_t bytes);
void library_call(void (*back)(size_t), size_t bytes) {
  NAME(back, bytes);
  __asm__ volatile("" ::: "memory");
}
