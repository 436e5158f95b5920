/* SPDX-License-Identifier: GPL-2.0-only */
/* A thousand mallocs and frees, and other work. */
#include <stdlib.h>

int main(void) {
  volatile long sum = 0;
  for (int i = 0; i < 1000; i++) {
    char *volatile object = malloc((size_t)(i % 50 + 1));
    object[0] = (char)i;
    for (int j = 0; j < 10; j++)
      sum += j;
    free(object);
  }
  return sum < 0;
}
