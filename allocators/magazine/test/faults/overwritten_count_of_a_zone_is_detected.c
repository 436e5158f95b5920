/* SPDX-License-Identifier: MIT */
/* The count is 0 although an object is used. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(100);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  memset((void *)(zone + 64), 0, 64);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "magazines=0", corrupt, "overwritten header of a zone");
}
