/* SPDX-License-Identifier: MIT */
/* From the threshold that mallopt sets on, an object that fits nowhere gets its own mapping. */
#include "allocators/common/entry.h"

#include <malloc.h>

static size_t mapped_objects_after(size_t object_bytes) {
  allocator_free(NULL);
  void *object = allocator_malloc(object_bytes);
  size_t mapped = allocator_mallinfo2().hblks;
  allocator_free(object);
  return mapped;
}

int main(void) {
  if (allocator_mallopt(M_MMAP_THRESHOLD, 4 << 20) != 1 || mapped_objects_after(3 << 20) != 0)
    return 1;
  return allocator_mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mapped_objects_after(6 << 20) == 1 ? 0 : 1;
}
