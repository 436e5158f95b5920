/* The second list of a large bin is as good a target as the first. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = object_before_another(3000), *second = object_before_another(3072);
  reference_free(first);
  reference_free(second);
  reference_malloc(40000); /* sorts both into a large bin */
  *(uintptr_t *)(first + 16) = (uintptr_t)second - 16 + 64;
  reference_malloc(3000);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "corrupt ring of sizes");
}
