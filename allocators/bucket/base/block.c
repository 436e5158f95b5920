/* SPDX-License-Identifier: MIT */
#include "allocators/bucket/base/block.h"

uintptr_t block_secret;

void block_fault(const char *where, const void *object) {
  if (!is_aligned(object))
    fault(where, "invalid pointer: not a multiple of 16", object);
  if (block_is_free(block_of(object)))
    fault(where, "double free, or an object that was freed", object);
  fault(where, "invalid pointer, or overwritten header", object);
}
