/* SPDX-License-Identifier: MIT */
/* What operators_by_helpers.cc takes its memory from. */
#include <stdlib.h>

void *take_helper(size_t bytes) {
  void *object = malloc(bytes);
  if (!object)
    abort();
  return object;
}

void *resize_helper(void *old, size_t bytes) {
  void *object = realloc(old, bytes);
  if (!object)
    abort();
  return object;
}

void drop_helper(void *object) {
  free(object);
}
