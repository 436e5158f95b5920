/* SPDX-License-Identifier: MIT */
/* A program with functions of mimalloc's names in it, as a static mimalloc has them: some call others of them, and
   leave garbage beside a bool. It prints what they were called with. */
#include "core/test/usual.h"

#define NOIPA __attribute__((noipa))

static long option[32];
static unsigned collected;

NOIPA void *mi_malloc(size_t bytes) {
  return malloc(bytes);
}
NOIPA void mi_free(void *object) {
  free(object);
}
NOIPA void mi_collect(bool force) {
  mi_free(mi_malloc(4242));
  collected = collected * 3 + (force ? 2 : 1);
}
NOIPA void mi_option_set(int number, long value) {
  option[number] = value;
}
NOIPA void mi_option_set_enabled(int number, bool enable) {
  option[number + 1] += enable ? 2 : 1;
  mi_option_set(number + 2, enable);
}
NOIPA void mi_option_enable(int number) {
  mi_option_set_enabled(number, true);
  __asm__ volatile("");
}
NOIPA void mi_option_disable(int number) {
  mi_option_set_enabled(number, false);
}

int main(void) {
  void (*volatile collect)(unsigned) = (void (*)(unsigned))(void *)mi_collect;
  collect(0xab01);
  mi_option_set(15, -1);
  mi_option_enable(15);
  mi_option_disable(15);
  collect(0xcd00);
  printf("%u %ld %ld\n", collected, option[15], option[16] - 1);
  return 0;
}
