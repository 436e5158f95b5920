/* SPDX-License-Identifier: MIT */
/* By a write before the object. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  size_t *object = object_before_another(100000);
  object[-6] += 64; /* struct oversize */
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: overwritten size, of this oversize block or beside it");
}
