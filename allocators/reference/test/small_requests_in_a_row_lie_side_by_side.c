/* SPDX-License-Identifier: MIT */
/* They are cut from one free chunk, one behind the other, as long as it lasts; a free chunk elsewhere that would fit
   better is left alone. */
#include "allocators/common/entry.h"
#include "allocators/test/counted.h"

#include <stddef.h>

enum { SMALL_BYTES = 200, CHUNK_BYTES = SMALL_BYTES + 8, HOLE_BYTES = 3000 };

/* Returns an object, with one behind it that separates it when it is free. */
static char *separated(size_t object_bytes) {
  char *object = allocator_malloc(object_bytes);
  allocator_malloc(24);
  return object;
}

int main(int argument_count, char **arguments) {
  if (argument_count == 1)
    return run_under(arguments, "tcache=0:fastbins=0", "");
  char *better = separated(SMALL_BYTES + 100), *hole = separated(HOLE_BYTES);
  allocator_free(hole);
  if (allocator_malloc(SMALL_BYTES) != hole)
    return 1;
  allocator_free(better);
  for (int index = 1; (index + 1) * CHUNK_BYTES < HOLE_BYTES; index++)
    if (allocator_malloc(SMALL_BYTES) != hole + (ptrdiff_t)index * CHUNK_BYTES)
      return 1;
  return 0;
}
