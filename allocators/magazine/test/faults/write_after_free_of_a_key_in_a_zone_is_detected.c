/* SPDX-License-Identifier: MIT */
/* The object is written after it was freed, and handed out again. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(100);
  allocator_malloc(100); /* the zone stays */
  allocator_free(object);
  memset(object + 8, 7, 8);
  allocator_malloc(100);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "magazines=0", corrupt, "written after it was freed");
}
