/* SPDX-License-Identifier: MIT */
/* Detected when the block is handed out again: the lowest free block is the next. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = allocator_malloc(64), *second = allocator_malloc(64);
  allocator_free(second);
  memset(first, 1, 64 + 16);
  allocator_malloc(64);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "malloc: overwritten header of a free block");
}
