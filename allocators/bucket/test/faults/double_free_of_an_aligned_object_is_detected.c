/* SPDX-License-Identifier: MIT */
/* It has its own header within another object. */
#include "allocators/test/expect_fault.h"

#include <stdint.h>

static void corrupt(void) {
  void *object = NULL;
  do /* until one is within another */
    object = allocator_aligned_alloc(64, 100);
  while (((uintptr_t)object & 127) != 64);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: double free");
}
