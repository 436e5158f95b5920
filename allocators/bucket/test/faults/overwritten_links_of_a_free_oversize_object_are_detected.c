/* SPDX-License-Identifier: MIT */
/* A write after the free. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(100000);
  allocator_free(object);
  memset(object + 8, 1, 16);
  allocator_malloc(100000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten links of a free oversize block");
}
