/* SPDX-License-Identifier: MIT */
/* The second list of a large bin is as good a target as the first. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = object_before_another(3000), *second = object_before_another(3040);
  allocator_free(first);
  allocator_free(second);
  *(uintptr_t *)(first + 16) = (uintptr_t)second - 16 + 64;
  allocator_malloc(3000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "corrupt ring of sizes");
}
