/* SPDX-License-Identifier: MIT */
/* By an overflow from the object before; detected when the block is handed out again. */
#include "allocators/test/expect_fault.h"

#include <stdlib.h>

static void corrupt(void) {
  char *first = allocator_malloc(100000), *second = object_before_another(100000);
  if (second < first)
    exit(4);
  allocator_free(second);
  ((size_t *)second)[-2] ^= 4096; /* struct block */
  allocator_malloc(100000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten header of a free oversize block");
}
