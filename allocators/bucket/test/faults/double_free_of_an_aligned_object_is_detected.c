/* SPDX-License-Identifier: MIT */
/* It has a header of its own within another object. */
#include "allocators/test/expect_fault.h"

#include <stdint.h>

static void corrupt(void) {
  void *object = NULL;
  do /* until one lies within another */
    object = allocator_aligned_alloc(64, 100);
  while (((uintptr_t)object & 127) != 64);
  allocator_free(object);
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: double free");
}
