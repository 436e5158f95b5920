/* SPDX-License-Identifier: MIT */
/* The object became part of the top chunk. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(5000);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "double free: the object is in the top chunk");
}
