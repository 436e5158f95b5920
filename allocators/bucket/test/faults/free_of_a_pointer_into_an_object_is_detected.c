/* SPDX-License-Identifier: MIT */
/* Aligned, but there is no header before it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  allocator_free((char *)memset(object_before_another(1000), 0, 1000) + 160);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: invalid pointer, or overwritten header");
}
