/* SPDX-License-Identifier: MIT */
/* The rest of a chunk from which a small request was cut: the next small request would be cut from beyond its end. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  allocator_free(object_before_another(3000));
  char *object = allocator_malloc(200);
  *(size_t *)(object + 200) += 64;
  allocator_malloc(200);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache=0:fastbins=0", corrupt, "size of a free chunk and the copy behind it differ");
}
