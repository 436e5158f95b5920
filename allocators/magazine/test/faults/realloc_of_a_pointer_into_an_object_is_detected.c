/* SPDX-License-Identifier: MIT */
/* The program passes a wrong pointer. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(480);
  allocator_realloc(object + 16, 200);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "realloc: invalid pointer: no object begins there");
}
