/* SPDX-License-Identifier: MIT */
/* Freeing the neighbour would write to where the links point. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = allocator_malloc(3000), *second = object_before_another(3000);
  uintptr_t fake[8] = {0};
  allocator_free(first);
  *(uintptr_t **)first = fake; /* the classic unlink attack */
  allocator_free(second);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "corrupt links of a free chunk");
}
