/* SPDX-License-Identifier: MIT */
/* A write begins before the object. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(100000);
  memset(object - 128, 7, 128);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten header of a zone");
}
