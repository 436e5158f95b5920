/* SPDX-License-Identifier: MIT */
/* Its chunk is in a large bin. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(5000);
  allocator_free(object);
  allocator_realloc(object, 9000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "or the object is free");
}
