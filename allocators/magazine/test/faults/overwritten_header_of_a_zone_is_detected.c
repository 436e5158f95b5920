/* SPDX-License-Identifier: MIT */
/* A write far before the object. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(100);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  memset((void *)zone, 7, 64);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten header of a zone");
}
