/* No object has such an address. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = reference_malloc(200);
  reference_free(object + 8);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "not a multiple of 16");
}
