/* SPDX-License-Identifier: MIT */
/* Zeros over the head of a chunk. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(24);
  memset(object - 8, 0, 8);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten size");
}
