/* SPDX-License-Identifier: MIT */
/* Its magazine has gone to the depot meanwhile. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *objects[20];
  for (int index = 0; index < 20; index++)
    objects[index] = allocator_malloc(24);
  for (int index = 0; index < 20; index++)
    allocator_free(objects[index]);
  allocator_free(objects[0]);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "magazine_size=4", corrupt, "the object is free already: in a magazine");
}
