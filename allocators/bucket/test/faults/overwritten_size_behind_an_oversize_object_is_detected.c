/* SPDX-License-Identifier: MIT */
/* By an overflow that ends before the seal of the block behind. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(100000);
  memset(object, 1, allocator_malloc_usable_size(object) + 16);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten size, of this oversize block or beside it");
}
