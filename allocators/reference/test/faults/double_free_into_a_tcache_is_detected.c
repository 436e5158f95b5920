/* SPDX-License-Identifier: MIT */
/* Not the last one freed: the whole list is searched. */
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
  return expect_fault(arguments, "", corrupt, "double free: the object is in a tcache");
}
