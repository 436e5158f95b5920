/* SPDX-License-Identifier: MIT */
/* The pointer is to memory of the program. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  static char own[3 << 16];
  allocator_free(own + (1 << 16) + 64 - (uintptr_t)own % 64);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten header of a zone");
}
