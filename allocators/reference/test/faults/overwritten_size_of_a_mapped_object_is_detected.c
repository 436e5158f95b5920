/* SPDX-License-Identifier: MIT */
/* munmap would unmap a neighbour, or fail. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = allocator_malloc(1 << 20);
  *(size_t *)(object - 8) += 16;
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten size of a mapped object");
}
