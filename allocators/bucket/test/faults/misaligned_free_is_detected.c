/* No object lies there. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  allocator_free((char *)object_before_another(100) + 8);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: invalid pointer: not a multiple of 16");
}
