/* SPDX-License-Identifier: MIT */
/* It must neither be copied nor grown in place. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  void *object = object_before_another(24);
  allocator_free(object);
  allocator_realloc(object, 10);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "realloc: double free, or an object that was freed");
}
