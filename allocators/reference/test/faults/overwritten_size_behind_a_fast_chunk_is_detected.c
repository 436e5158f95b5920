/* SPDX-License-Identifier: MIT */
/* The object itself is whole, but it overflowed into the next head. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(40);
  memset(object + allocator_malloc_usable_size(object), 0, 8);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache=0", corrupt, "overwritten size, of this object or behind it");
}
