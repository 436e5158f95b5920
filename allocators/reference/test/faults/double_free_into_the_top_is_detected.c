/* The object became part of the top chunk. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  void *object = reference_malloc(5000);
  reference_free(object);
  reference_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "double free: the object is in the top chunk");
}
