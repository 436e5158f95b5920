/* SPDX-License-Identifier: MIT */
/* Its chunk is in a large bin, which the next chunk's head shows. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = object_before_another(5000);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "double free: the chunk is free");
}
