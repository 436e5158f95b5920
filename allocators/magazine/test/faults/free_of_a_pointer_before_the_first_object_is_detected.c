/* SPDX-License-Identifier: MIT */
/* A pointer into the header of a zone. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(16);
  uintptr_t zone = (uintptr_t)object & ~(uintptr_t)0xffff;
  allocator_free((void *)(zone + 64));
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "no object begins there");
}
