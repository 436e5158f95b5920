/* SPDX-License-Identifier: MIT */
/* The object went from the tcache into a fast bin meanwhile. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *objects[6];
  for (int index = 0; index < 6; index++)
    objects[index] = allocator_malloc(24);
  for (int index = 0; index < 6; index++)
    allocator_free(objects[index]);
  allocator_free(objects[0]);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache_count=2", corrupt, "double free: the object is in a fast bin");
}
