/* SPDX-License-Identifier: MIT */
/* The program is wrong about what it frees. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(30000);
  allocator_free(object + 4096);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "no object begins there");
}
