/* SPDX-License-Identifier: MIT */
/* There is no header of ours before it. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  static _Alignas(16) char not_ours[64];
  allocator_free(not_ours + 32);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: invalid pointer, or overwritten header");
}
