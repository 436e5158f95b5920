/* 64 bytes are its class. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  allocator_free_sized(object_before_another(50), 65);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free_sized: the object is smaller than that");
}
