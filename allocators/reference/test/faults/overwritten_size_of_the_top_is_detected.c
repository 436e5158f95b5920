/* SPDX-License-Identifier: MIT */
/* A top that claims to be endless would hand out memory that is not there. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(40);
  memset(object + allocator_malloc_usable_size(object), 0xff, 8);
  allocator_malloc(100000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache=0", corrupt, "overwritten size of the top chunk");
}
