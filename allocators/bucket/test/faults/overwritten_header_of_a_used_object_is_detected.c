/* SPDX-License-Identifier: MIT */
/* By an overflow from the object before it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = allocator_malloc(64), *second = allocator_malloc(64);
  memset(first, 1, 64 + 8);
  allocator_free(second);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: invalid pointer, or overwritten header");
}
