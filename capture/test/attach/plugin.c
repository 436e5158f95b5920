/* SPDX-License-Identifier: MIT */
/* A library that a program loads while it is recorded. Its constructor makes one of its objects. */
#include <stdlib.h>

void plugin_make(unsigned times);

__attribute__((constructor)) static void begin(void) {
  plugin_make(1);
}

void plugin_make(unsigned times) {
  for (unsigned i = 0; i < times; i++)
    free(malloc(7777));
}
