/* SPDX-License-Identifier: MIT */
/* A free chunk that claims to be larger would be handed out over a used one. */
#include "allocators/test/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = object_before_another(3000);
  allocator_free(object);
  *(size_t *)(object - 8) += 64;
  allocator_malloc(3040);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "size of a free chunk and the copy behind it differ");
}
