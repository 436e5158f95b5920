/* SPDX-License-Identifier: MIT */
/* Not merged with anything: an object separates it from other free memory. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  void *object = object_before_another(100000);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: double free");
}
