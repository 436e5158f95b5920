/* The program is wrong about what it frees. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = reference_malloc(100);
  reference_free_sized(object, 200);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "the object is smaller than that");
}
