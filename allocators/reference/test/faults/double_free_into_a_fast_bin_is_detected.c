/* SPDX-License-Identifier: MIT */
/* Not the last one freed, which a comparison with the first of the list would find. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache=0", corrupt, "double free: the object is in a fast bin");
}
