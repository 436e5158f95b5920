/* SPDX-License-Identifier: MIT */
/* Each way to corrupt a heap of the reference allocator, and the line that reports it. */
#include "allocators/test/expect_fault.h"

#include <string.h>

/* Not the last one freed, which a comparison with the first of the list would find. */
static void double_free_into_a_fast_bin(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

/* Not the last one freed: the whole list is searched. */
static void double_free_into_a_tcache(void) {
  void *object = allocator_malloc(24), *other = allocator_malloc(24);
  allocator_free(object);
  allocator_free(other);
  allocator_free(object);
}

/* The object became part of the top chunk. */
static void double_free_into_the_top(void) {
  void *object = allocator_malloc(5000);
  allocator_free(object);
  allocator_free(object);
}

/* The object went from the tcache into a fast bin meanwhile. */
static void double_free_of_a_flushed_object(void) {
  void *objects[6];
  for (int index = 0; index < 6; index++)
    objects[index] = allocator_malloc(24);
  for (int index = 0; index < 6; index++)
    allocator_free(objects[index]);
  allocator_free(objects[0]);
}

/* Its chunk is in a large bin, which the next chunk's head shows. */
static void double_free_of_a_large_object(void) {
  void *object = object_before_another(5000);
  allocator_free(object);
  allocator_free(object);
}

/* There is no size before it. */
static void free_of_a_pointer_into_an_object(void) {
  char *object = memset(allocator_malloc(200), 0, 200);
  allocator_free(object + 64);
}

/* The size of the free chunk before is read from its copy behind it, which a write after free has changed. */
static void overwritten_copy_of_a_size(void) {
  char *first = allocator_malloc(3000), *second = object_before_another(3000);
  allocator_free(first);
  *(size_t *)(second - 16) -= 32;
  allocator_free(second);
}

/* As in a tcache. */
static void overwritten_link_in_a_fast_bin(void) {
  char *first = allocator_malloc(40), *second = allocator_malloc(40);
  allocator_free(first);
  allocator_free(second);
  *second ^= 8; /* a write after free */
  allocator_malloc(40);
  allocator_malloc(40);
}

/* The link is hidden; what was written over it does not decode to an aligned pointer. */
static void overwritten_link_in_a_tcache(void) {
  char *first = allocator_malloc(40), *second = allocator_malloc(40);
  allocator_free(first);
  allocator_free(second);
  *second ^= 8; /* a write after free */
  allocator_malloc(40);
}

/* Freeing the neighbour would write to where the links point. */
static void overwritten_links_of_a_free_chunk(void) {
  char *first = allocator_malloc(3000), *second = object_before_another(3000);
  uintptr_t fake[8] = {0};
  allocator_free(first);
  *(uintptr_t **)first = fake; /* the classic unlink attack */
  allocator_free(second);
}

/* The second list of a large bin is as good a target as the first. */
static void overwritten_ring_of_sizes(void) {
  char *first = object_before_another(3000), *second = object_before_another(3040);
  allocator_free(first);
  allocator_free(second);
  *(uintptr_t *)(first + 16) = (uintptr_t)second - 16 + 64;
  allocator_malloc(3000);
}

/* The object itself is whole, but it overflowed into the next head. */
static void overwritten_size_behind_a_fast_chunk(void) {
  char *object = object_before_another(40);
  memset(object + allocator_malloc_usable_size(object), 0, 8);
  allocator_free(object);
}

/* A buffer overflows into the head of the chunk behind it, which is then freed. */
static void overwritten_size(void) {
  char *object = object_before_another(3000);
  char *next = object + allocator_malloc_usable_size(object) + 8;
  memset(object, 0x41, (size_t)(next - object)); /* 8 bytes too many */
  allocator_free(next);
}

/* A free chunk that claims to be larger would be handed out over a used one. */
static void overwritten_size_of_a_free_chunk(void) {
  char *object = object_before_another(3000);
  allocator_free(object);
  *(size_t *)(object - 8) += 64;
  allocator_malloc(3040);
}

/* munmap would unmap a neighbour, or fail. */
static void overwritten_size_of_a_mapped_object(void) {
  char *object = allocator_malloc(1 << 20);
  *(size_t *)(object - 8) += 16;
  allocator_free(object);
}

/* Zeros over the head of a chunk. */
static void overwritten_size_of_a_small_object(void) {
  char *object = allocator_malloc(24);
  memset(object - 8, 0, 8);
  allocator_free(object);
}

/* The rest of a chunk from which a small request was cut: the next small request would be cut from beyond its end. */
static void overwritten_size_of_the_remainder(void) {
  allocator_free(object_before_another(3000));
  char *object = allocator_malloc(200);
  *(size_t *)(object + 200) += 64;
  allocator_malloc(200);
}

/* A top that claims to be endless would hand out memory that is not there. */
static void overwritten_size_of_the_top(void) {
  char *object = allocator_malloc(40);
  memset(object + allocator_malloc_usable_size(object), 0xff, 8);
  allocator_malloc(100000);
}

/* Its chunk is in a large bin. */
static void realloc_of_a_freed_object(void) {
  char *object = object_before_another(5000);
  allocator_free(object);
  allocator_realloc(object, 9000);
}

/* There is no size before it. */
static void realloc_of_a_pointer_into_an_object(void) {
  char *object = memset(allocator_malloc(200), 0, 200);
  allocator_realloc(object + 64, 300);
}

static const struct fault_case cases[] = {
    FAULT(double_free_into_a_fast_bin, "tcache=0", "double free: the object is in a fast bin"),
    FAULT(double_free_into_a_tcache, "", "double free: the object is in a tcache"),
    FAULT(double_free_into_the_top, "", "double free: the object is in the top chunk"),
    FAULT(double_free_of_a_flushed_object, "tcache_count=2", "double free: the object is in a fast bin"),
    FAULT(double_free_of_a_large_object, "", "double free: the chunk is free"),
    FAULT(free_of_a_pointer_into_an_object, "", "invalid pointer"),
    FAULT(overwritten_copy_of_a_size, "", "overwritten size of the free chunk before"),
    FAULT(overwritten_link_in_a_fast_bin, "tcache=0", "corrupt link or size in a fast bin"),
    FAULT(overwritten_link_in_a_tcache, "", "corrupt link in a tcache"),
    FAULT(overwritten_links_of_a_free_chunk, "", "corrupt links of a free chunk"),
    FAULT(overwritten_ring_of_sizes, "", "corrupt ring of sizes"),
    FAULT(overwritten_size_behind_a_fast_chunk, "tcache=0", "overwritten size, of this object or behind it"),
    FAULT(overwritten_size, "", "overwritten size"),
    FAULT(overwritten_size_of_a_free_chunk, "", "size of a free chunk and the copy behind it differ"),
    FAULT(overwritten_size_of_a_mapped_object, "", "overwritten size of a mapped object"),
    FAULT(overwritten_size_of_a_small_object, "", "overwritten size"),
    FAULT(overwritten_size_of_the_remainder, "tcache=0:fastbins=0",
          "size of a free chunk and the copy behind it differ"),
    FAULT(overwritten_size_of_the_top, "tcache=0", "overwritten size of the top chunk"),
    FAULT(realloc_of_a_freed_object, "", "or the object is free"),
    FAULT(realloc_of_a_pointer_into_an_object, "", "realloc: invalid pointer"),
    {0},
};

int main(int argument_count, char **arguments) {
  return expect_faults(argument_count, arguments, cases);
}
