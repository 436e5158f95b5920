/* SPDX-License-Identifier: MIT */
/* The link is hidden; what was written over it does not decode to an aligned pointer. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = allocator_malloc(40), *second = allocator_malloc(40);
  allocator_free(first);
  allocator_free(second);
  *second ^= 8; /* a write after free */
  allocator_malloc(40);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "corrupt link in a tcache");
}
