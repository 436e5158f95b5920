/* SPDX-License-Identifier: MIT */
/* The program states a wrong size. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(100);
  allocator_free_sized(object, 200);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "the object is smaller than the given size");
}
