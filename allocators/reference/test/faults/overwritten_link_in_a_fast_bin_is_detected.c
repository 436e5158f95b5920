/* As in a tcache. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *first = reference_malloc(40), *second = reference_malloc(40);
  reference_free(first);
  reference_free(second);
  *second ^= 8; /* a write after free */
  reference_malloc(40);
  reference_malloc(40);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "tcache=0", corrupt, "corrupt link or size in a fast bin");
}
