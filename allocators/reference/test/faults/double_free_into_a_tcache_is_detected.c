/* Not the last one freed: the whole list is looked through. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = reference_malloc(24), *other = reference_malloc(24);
  reference_free(object);
  reference_free(other);
  reference_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "double free: the object is in a tcache");
}
