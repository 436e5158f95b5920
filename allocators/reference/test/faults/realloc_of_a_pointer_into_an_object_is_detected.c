/* SPDX-License-Identifier: MIT */
/* There is no size before it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = memset(allocator_malloc(200), 0, 200);
  allocator_realloc(object + 64, 300);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "realloc: invalid pointer");
}
