/* SPDX-License-Identifier: MIT */
/* Its run of zones is still kept. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(300000);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "double free of a large object");
}
