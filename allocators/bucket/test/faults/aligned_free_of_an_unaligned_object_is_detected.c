/* There are 16 bytes between an object and what it is aligned to at most. */
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  allocator_free_aligned_sized(object_before_another(50), (size_t)1 << 40, 50);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free_aligned_sized: the object is not aligned so");
}
