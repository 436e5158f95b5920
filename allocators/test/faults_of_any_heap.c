/* SPDX-License-Identifier: MIT */
/* The misuse that each of our allocators detects. */
#include "allocators/test/expect_fault.h"

#include <string.h>

/* The program states a wrong alignment. */
static void aligned_free_of_an_unaligned_object(void) {
  char *object = allocator_aligned_alloc(4096, 100);
  char *other = allocator_malloc(100);
  allocator_free_aligned_sized((uintptr_t)other % 4096 ? other : object, 4096, 100);
}

/* No object has such an address. */
static void misaligned_free(void) {
  char *object = allocator_malloc(200);
  allocator_free(object + 8);
}

/* The program states a wrong size. */
static void sized_free_of_a_smaller_object(void) {
  void *object = allocator_malloc(100);
  allocator_free_sized(object, 200);
}

const struct fault_case cases_of_any_heap[] = {
    FAULT(aligned_free_of_an_unaligned_object, "", "the object does not have the given alignment"),
    FAULT(misaligned_free, "", "not a multiple of 16"),
    FAULT(sized_free_of_a_smaller_object, "", "the object is smaller than the given size"),
    {0},
};
