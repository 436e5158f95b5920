/* SPDX-License-Identifier: MIT */
/* The object is in a magazine. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(100);
  allocator_free(object);
  allocator_realloc(object, 200);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "realloc: the object is free already");
}
