/* SPDX-License-Identifier: MIT */
/* The size of the free chunk before is read from its copy behind it, which a write after free has changed. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = allocator_malloc(3000), *second = object_before_another(3000);
  allocator_free(first);
  *(size_t *)(second - 16) -= 32;
  allocator_free(second);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten size of the free chunk before");
}
