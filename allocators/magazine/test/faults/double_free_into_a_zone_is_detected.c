/* SPDX-License-Identifier: MIT */
/* The object went to its zone. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_malloc(24); /* the zone stays */
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "magazines=0", corrupt, "the object is free already: in its zone");
}
