/* SPDX-License-Identifier: MIT */
/* Only the link: the key is unchanged. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(100), *other = allocator_malloc(100);
  allocator_malloc(100); /* the zone stays */
  allocator_free(other);
  allocator_free(object);
  memset(object, 7, 8);
  allocator_malloc(100);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "magazines=0", corrupt, "written after it was freed");
}
