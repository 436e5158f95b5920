/* SPDX-License-Identifier: MIT */
/* By an underflow from its first block. */
#include "allocators/bucket/buckets.h"
#include "allocators/test/expect_fault.h"

static void corrupt(void) {
  char *object = object_before_another(24);
  struct cache *cache = block_owner(block_of(object));
  cache->block_bytes = 4096;
  allocator_free(object);
}

int main(int argument_count, char **arguments) {
  (void)argument_count;
  return expect_fault(arguments, "", corrupt, "free: overwritten head of a cache");
}
