/* Not the last one freed, which a comparison with the first of the list would find. */
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
  return expect_fault(arguments, "tcache=0", corrupt, "double free: the object is in a fast bin");
}
