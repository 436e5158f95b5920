/* SPDX-License-Identifier: MIT */
/* No object has such an address. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(200);
  allocator_free(object + 8);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "not a multiple of 16");
}
