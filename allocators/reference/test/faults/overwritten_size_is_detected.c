/* SPDX-License-Identifier: MIT */
/* A buffer overflows into the head of the chunk behind it, which is then freed. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(3000);
  char *next = object + allocator_malloc_usable_size(object) + 8;
  memset(object, 0x41, (size_t)(next - object)); /* 8 bytes too many */
  allocator_free(next);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "overwritten size");
}
