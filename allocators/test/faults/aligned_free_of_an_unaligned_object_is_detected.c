/* SPDX-License-Identifier: MIT */
/* The program states a wrong alignment. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_aligned_alloc(4096, 100);
  char *other = allocator_malloc(100);
  allocator_free_aligned_sized((uintptr_t)other % 4096 ? other : object, 4096, 100);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "the object does not have the given alignment");
}
