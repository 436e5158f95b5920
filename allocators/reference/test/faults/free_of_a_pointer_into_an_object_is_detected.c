/* There is no size before it. */
#include "allocators/reference/test/faults/expect_fault.h"

#include <string.h>

static void corrupt(void) {
  char *object = memset(reference_malloc(200), 0, 200);
  reference_free(object + 64);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "invalid pointer");
}
